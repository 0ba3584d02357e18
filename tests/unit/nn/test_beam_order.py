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
