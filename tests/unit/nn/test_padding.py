"""Moving padding to the right and back."""

import pytest
import torch

from convs2s.nn.padding import order_padding_last, select_columns

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


@pytest.mark.parametrize("dim", [1, 2, -1])
@pytest.mark.parametrize("rows", [2, 6], ids=["a row", "three rows for a sentence"])
def test_each_sentence_has_its_own_order_of_columns(dim, rows):
    columns = torch.tensor([[2, 0, 1, 3], [3, 2, 1, 0]])
    x = torch.randn(rows, 4, 4, 4, requires_grad=True)
    selected = select_columns(x, columns, dim)
    expected = torch.stack(
        [
            each.index_select(dim - (dim > 0), columns[row // (rows // 2)])
            for row, each in enumerate(x)
        ]
    )
    assert torch.equal(selected, expected)
    weights = torch.randn_like(x)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (selected, expected)]
    assert torch.equal(*gradients)
    assert select_columns(x, None, dim) is x
