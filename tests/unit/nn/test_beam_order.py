"""The order of sentences that follows from an order of hypotheses."""

import pytest
import torch

from convs2s.nn.state import BeamOrder


@pytest.mark.parametrize(
    "new_order, beam_size, sentences, new_beam_size",
    [
        ([1, 0, 2, 2], 2, [0, 1], 2),  # hypotheses stay in their sentence
        ([2, 3], 2, [1], 2),  # a sentence leaves
        ([0, 0, 0, 1, 1, 1], 1, [0, 1], 3),  # the search begins
        ([2, 3, 0, 1], 2, [1, 0], 2),  # sentences change places
        ([0, 1, 2], 2, [0, 0, 1], 1),  # beams of different sizes
        ([0, 2, 1, 3], 2, [0, 1, 0, 1], 1),  # hypotheses of a sentence are not consecutive
        ([], 2, [], 1),
    ],
)
def test_sentences_follow_their_hypotheses(new_order, beam_size, sentences, new_beam_size):
    order = BeamOrder(torch.tensor(new_order, dtype=torch.long), beam_size)
    assert order.sentences.tolist() == sentences
    assert (order.old_beam_size, order.new_beam_size) == (beam_size, new_beam_size)


def test_rows_are_copied_only_if_one_moves_or_leaves():
    tensor = torch.randn(2, 3)
    assert BeamOrder(torch.tensor([1, 0, 2, 2]), 2).select(tensor) is tensor
    assert torch.equal(BeamOrder(torch.tensor([0, 1]), 2).select(tensor), tensor[:1])
    assert torch.equal(BeamOrder(torch.tensor([2, 3, 0, 1]), 2).select(tensor), tensor[[1, 0]])


@pytest.mark.parametrize(
    "new_order, sentences, moves, beam_sizes",
    [
        ([0, 0, 1, 1, 2, 2], [0, 1, 2], False, (1, 2)),  # the search begins
        ([1, 0, 3, 3, 4, 5], [0, 1, 2], False, (2, 2)),  # all sentences stay
        ([0, 1, 5, 4], [0, 2], True, (2, 2)),  # one leaves
        ([1, 1, 2, 3], [0, 1], True, (2, 2)),  # the last one leaves
    ],
)
def test_an_order_that_is_known_is_the_one_that_is_found(new_order, sentences, moves, beam_sizes):
    found = BeamOrder(torch.tensor(new_order), beam_sizes[0])
    known = BeamOrder.known(torch.tensor(sentences), moves, *beam_sizes)
    assert found.sentences.tolist() == known.sentences.tolist()
    for name in ("old_beam_size", "new_beam_size"):
        assert getattr(found, name) == getattr(known, name)
    assert found.is_identity(3) == known.is_identity(3) == (not moves)
