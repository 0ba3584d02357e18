"""Steps of linear attention with a cache of the last positions, against a state at every step."""

import pytest
import torch

from convs2s.nn import recent_positions
from convs2s.nn.state import Backpointers, State
from tests.unit.nn.test_kv_cache import new_order

HEADS, SIZE, VALUE_SIZE = 4, 3, 5
SEARCHES = [("search",), ("search", "leaving"), ("search", "search", "anything")]


@pytest.mark.parametrize("recent", [1, 2, 5, 100])
@pytest.mark.parametrize("kinds", SEARCHES)
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("key_heads, channels", [(1, 1), (HEADS, 1), (HEADS, SIZE)])
@torch.no_grad()
def test_a_search_equals_the_formula(recent, kinds, beam_size, key_heads, channels, monkeypatch):
    """Hypotheses change places, sentences leave, and some begin with padding."""
    monkeypatch.setattr(recent_positions, "RECENT", recent)
    monkeypatch.setattr(recent_positions, "RECENT_OF_CHANNELS", recent)
    generator = torch.Generator().manual_seed(recent + beam_size)
    state, rows = State(), 4 * beam_size
    state.beam_size, state.backpointers = beam_size, Backpointers(beam_size)
    expected_state = torch.zeros(rows, HEADS, SIZE, VALUE_SIZE, dtype=torch.float64)
    padded = torch.arange(rows) // beam_size == 1

    def draw(heads, size):
        return torch.randn(rows, heads, 1, size, generator=generator, dtype=torch.float64)

    for number in range(20):
        cached = state.backpointers.beam_size
        query, key = (draw(key_heads, SIZE) for _ in range(2))
        value, scale = draw(HEADS, VALUE_SIZE), draw(HEADS, 1)
        factor = draw(HEADS, channels).sigmoid()
        padding = (padded & (number < 3)).view(-1, 1, 1, 1)
        scale, factor = scale.masked_fill(padding, 0.0), factor.masked_fill(padding, 1.0)
        mask = state.backpointers.extend(torch.empty(rows, 1), padding.view(-1, 1))

        layer = state.child("layer")
        found = recent_positions.step(
            layer, query, key, value, factor.squeeze(2), scale.squeeze(2), cached, mask
        )
        update = scale * key.transpose(2, 3) * value
        expected_state = factor.transpose(2, 3) * expected_state + update
        torch.testing.assert_close(found, query @ expected_state, atol=1e-10, rtol=1e-10)
        assert layer.kv_cache().length <= recent * cached

        order = new_order(kinds[number % len(kinds)], rows // beam_size, beam_size, generator)
        expected_state, padded, rows = expected_state[order], padded[order], len(order)
        state.reorder_(order)
        if rows == 0:
            break


@torch.no_grad()
def test_folding_is_the_state():
    state, generator = State(), torch.Generator().manual_seed(1)
    expected = torch.zeros(2, 1, SIZE, VALUE_SIZE)
    recent_positions.fold(state, None, 1)
    assert not state.rows
    for number in range(7):
        key, value = (
            torch.randn(2, 1, 1, size, generator=generator) for size in (SIZE, VALUE_SIZE)
        )
        factor, scale = torch.rand(2, 2, 1, 1, generator=generator)
        recent_positions.step(state, key, key, value, factor, scale, 1, None)
        expected = factor.unsqueeze(3) * expected + scale.unsqueeze(3) * key.transpose(2, 3) * value
        if number in (2, 3, 6):
            recent_positions.fold(state, None, 1)
            assert "weights" not in state.rows and state.kv_cache().length == 0
            kept = state.rows["decay"].view(2, 1, 1, 1) * state.rows["hidden"].view_as(expected)
            torch.testing.assert_close(kept, expected)
