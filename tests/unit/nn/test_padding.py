"""Moving padding to the right and back."""

import torch

from convs2s.nn.padding import order_padding_last

PAD = 1


def moved(tokens):
    tokens = torch.tensor(tokens)
    order = order_padding_last(tokens == PAD)
    new = order.apply(tokens)
    if order.padding_mask is None:
        assert not (new == PAD).any()
    else:
        assert torch.equal(new == PAD, order.padding_mask)
    restored = order.restore(new.unsqueeze(-1)).squeeze(-1)
    assert torch.equal(restored, tokens)
    return order, new.tolist()


def test_padding_on_any_side_moves_to_the_right():
    order, new = moved([[1, 5, 6, 1], [7, 1, 8, 9], [1, 1, 1, 4]])
    assert new == [[5, 6, 1, 1], [7, 8, 9, 1], [4, 1, 1, 1]]
    assert order.lengths.tolist() == [2, 3, 1]


def test_nothing_moves_without_padding_or_with_padding_on_the_right():
    for tokens in ([[5, 6], [7, 8]], [[5, 6], [7, 1]]):
        order, new = moved(tokens)
        assert order.order is None and order.inverse is None and new == tokens
        # A pass without padding needs no mask.
        assert (order.padding_mask is None) == (PAD not in tokens[1])


def test_positions_stop_at_the_longest_sentence():
    order, _ = moved([[5, 6, 1, 1], [1, 1, 1, 7]])
    positions, longest = order.positions()
    assert positions.tolist() == [0, 1, 1, 1] and longest == 2
