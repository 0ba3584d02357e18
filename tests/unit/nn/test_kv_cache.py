"""The key-value cache in a beam search, against keys and values copied at every step."""

import pytest
import torch

from convs2s.nn.attention import dot_product_attention
from convs2s.nn.state import Backpointers, State

HEADS, SIZE, VALUE_SIZE = 2, 3, 4


def new_order(kind, sentences, beam_size, generator):
    """Indices of hypotheses, as a beam search or another caller may reorder them."""
    if kind == "search":
        start = torch.arange(sentences).unsqueeze(1) * beam_size
        chosen = torch.randint(beam_size, (sentences, beam_size), generator=generator)
        return (start + chosen).flatten()
    if kind == "leaving":
        kept = torch.randperm(sentences, generator=generator)[: max(sentences - 1, 1)].sort()[0]
        chosen = torch.randint(beam_size, (len(kept), beam_size), generator=generator)
        return (kept.unsqueeze(1) * beam_size + chosen).flatten()
    return torch.randint(sentences * beam_size, (sentences * beam_size,), generator=generator)


def by_position(x, beam_size):
    """R x h x T x E to B x h x (T * beam_size) x E."""
    return x.unflatten(0, (-1, beam_size)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def by_hypothesis(x, beam_size):
    """R x h x T x E to B x h x (beam_size * T) x E."""
    return x.unflatten(0, (-1, beam_size)).transpose(1, 2).flatten(2, 3)


@pytest.mark.parametrize("kinds", [("search",), ("search", "leaving"), ("search", "anything")])
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("steps", [1, 2])
@torch.no_grad()
def test_attention_to_the_cache_equals_attention_to_copies(kinds, beam_size, steps):
    generator = torch.Generator().manual_seed(1)
    state, rows = State(), 4 * beam_size
    state.beam_size, state.backpointers = beam_size, Backpointers(beam_size)
    past_keys = torch.empty(rows, HEADS, 0, SIZE)
    past_values = torch.empty(rows, HEADS, 0, VALUE_SIZE)
    for number in range(20):
        cached = state.backpointers.beam_size
        new_keys, query = torch.randn(2, rows, HEADS, steps, SIZE, generator=generator)
        new_values = torch.randn(rows, HEADS, steps, VALUE_SIZE, generator=generator)
        past_keys = torch.cat([past_keys, new_keys], dim=2)
        past_values = torch.cat([past_values, new_values], dim=2)
        mask = state.backpointers.extend(torch.empty(rows, steps))

        cache = state.child("layer").kv_cache()
        keys, values = cache.append(by_position(new_keys, cached), by_position(new_values, cached))
        found, _ = dot_product_attention(by_hypothesis(query, cached), keys, values, mask)
        found = found.unflatten(2, (cached, steps)).transpose(1, 2).flatten(0, 1)

        length = past_keys.size(2)
        causal = torch.ones(steps, length, dtype=torch.bool).tril(length - steps)
        expected, _ = dot_product_attention(query, past_keys, past_values, causal)
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)

        order = new_order(kinds[number % len(kinds)], rows // beam_size, beam_size, generator)
        past_keys, past_values, rows = past_keys[order], past_values[order], len(order)
        state.reorder_(order)
        if rows == 0:
            break


@torch.no_grad()
def test_a_beam_is_reordered_without_a_copy():
    state = State()
    state.beam_size, state.backpointers = 2, Backpointers(2)
    cache = state.child("layer").kv_cache()
    state.backpointers.extend(torch.empty(4, 1))
    cache.append(torch.randn(2, 1, 2, 3), torch.randn(2, 1, 2, 4))
    keys, values = cache.keys, cache.values
    state.reorder_(torch.tensor([1, 1, 2, 2]))
    assert cache.keys is keys and cache.values is values
    state.reorder_(torch.tensor([2, 3]))
    assert cache.keys is not keys and cache.values is not values and cache.num_sentences == 1


@torch.no_grad()
def test_many_columns_at_once_reserve_few_more():
    cache = State().kv_cache()
    columns = torch.randn(1, 1, 1000, 3)
    cache.append(columns, columns)
    assert cache.keys.size(2) < 1300


def test_gradients_pass_through_the_cache():
    cache = State().kv_cache()
    keys = torch.randn(1, 1, 1, 3, requires_grad=True)
    values = torch.randn(1, 1, 1, 3, requires_grad=True)
    cache.append(keys, values)
    all_keys, all_values = cache.append(torch.randn(1, 1, 1, 3), torch.randn(1, 1, 1, 3))
    (all_keys + 2 * all_values).sum().backward()
    assert torch.equal(keys.grad, torch.ones_like(keys))
    assert torch.equal(values.grad, torch.full_like(values, 2.0))


@torch.no_grad()
def test_a_sentence_that_leaves_costs_one_copy():
    cache = State().kv_cache()
    for _ in range(3):
        cache.append(torch.randn(4, HEADS, 2, SIZE), torch.randn(4, HEADS, 2, VALUE_SIZE))
    before = [each.clone() for each in cache.contents()]
    cache.select(torch.tensor([0, 3]))
    selected = cache.keys.data_ptr(), cache.values.data_ptr()
    after = cache.append(torch.randn(2, HEADS, 2, SIZE), torch.randn(2, HEADS, 2, VALUE_SIZE))
    assert (cache.keys.data_ptr(), cache.values.data_ptr()) == selected
    assert all(torch.equal(x[:, :, :6], old[[0, 3]]) for x, old in zip(after, before))
