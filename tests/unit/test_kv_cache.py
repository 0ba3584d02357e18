"""What self-attention remembers in a beam search, against rows that are copied at every step."""

import pytest
import torch

from convs2s_plugin.decoding.kv_cache import Backpointers
from convs2s_plugin.decoding.state import State
from convs2s_plugin.nn.attention import attend

HEADS, SIZE = 2, 3


def orders(kind, sentences, beam, generator):
    """How hypotheses may follow each other: indices of rows, and how many rows a sentence has."""
    if kind == "search":
        start = torch.arange(sentences).unsqueeze(1) * beam
        return (start + torch.randint(beam, (sentences, beam), generator=generator)).flatten()
    if kind == "leaving":
        kept = torch.randperm(sentences, generator=generator)[: max(sentences - 1, 1)].sort()[0]
        return (kept.unsqueeze(1) * beam + torch.randint(beam, (len(kept), beam))).flatten()
    return torch.randint(sentences * beam, (sentences * beam,), generator=generator)


def by_sentence(x, beam):
    """R x h x T x E to B x h x T x beam x E."""
    return x.unflatten(0, (-1, beam)).permute(0, 2, 3, 1, 4)


@pytest.mark.parametrize("kinds", [("search",), ("search", "leaving"), ("search", "anything")])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("steps", [1, 2])
@torch.no_grad()
def test_what_is_seen_is_what_copies_would_hold(kinds, beam, steps):
    generator = torch.Generator().manual_seed(1)
    state, rows = State(), 4 * beam
    state.beam_size, state.backpointers = beam, Backpointers(beam)
    past = torch.empty(rows, HEADS, 0, SIZE)
    for number in range(20):
        now = state.backpointers.beam
        new, query = torch.randn(2, rows, HEADS, steps, SIZE, generator=generator)
        past = torch.cat([past, new], dim=2)
        mask = state.backpointers.extend(torch.empty(rows, steps))

        written = by_sentence(new, now).flatten(2, 3)
        written = state.child("layer").kv_cache("keys").append(written)
        queries = by_sentence(query, now).transpose(2, 3).flatten(2, 3)
        found, _ = attend(queries, written, written, mask)
        found = found.unflatten(2, (now, steps)).permute(0, 2, 1, 3, 4).flatten(0, 1)

        length = past.size(2)
        causal = torch.ones(steps, length, dtype=torch.bool).tril(length - steps)
        expected, _ = attend(query, past, past, causal)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)

        order = orders(kinds[number % len(kinds)], rows // beam, beam, generator)
        past, rows = past[order], len(order)
        state.reorder_(order)
        if rows == 0:
            break


@torch.no_grad()
def test_a_beam_is_reordered_without_a_copy():
    state = State()
    state.beam_size, state.backpointers = 2, Backpointers(2)
    history = state.child("layer").kv_cache("keys")
    state.backpointers.extend(torch.empty(4, 1))
    history.append(torch.randn(2, 1, 2, 3))
    before = history.buffer
    state.reorder_(torch.tensor([1, 1, 2, 2]))
    assert history.buffer is before
    state.reorder_(torch.tensor([2, 3]))
    assert history.buffer is not before and len(history.buffer) == 1


def test_gradients_pass_through_what_was_written():
    history = State().kv_cache("keys")
    first = torch.randn(1, 1, 1, 3, requires_grad=True)
    history.append(first)
    history.append(torch.randn(1, 1, 1, 3)).sum().backward()
    assert torch.equal(first.grad, torch.ones_like(first))
