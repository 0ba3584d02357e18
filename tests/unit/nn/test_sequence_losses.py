"""Losses of sentences with different numbers of candidates, against the formulas of the paper."""

import pytest
import torch

from convs2s.nn.sequence_losses import SEQUENCE_LOSSES
from tests.support.sequence_training import plain_loss


@pytest.mark.parametrize("name", SEQUENCE_LOSSES)
@pytest.mark.parametrize("filler", [0.0, 9.0, -9.0])
def test_candidates_that_a_sentence_does_not_have_do_not_count(name, filler):
    """Whatever stands in their place, be it the lowest cost or the highest score."""
    generator = torch.Generator().manual_seed(1)
    scores, costs = torch.randn(2, 20, 5, generator=generator, dtype=torch.float64)
    costs = costs.sigmoid()
    mask = torch.arange(5) < torch.arange(20).unsqueeze(1) % 5 + 1
    rows = zip(scores, costs, mask)
    expected = torch.stack([plain_loss(name, score[has], cost[has]) for score, cost, has in rows])
    found = SEQUENCE_LOSSES[name](
        scores.masked_fill(~mask, filler), costs.masked_fill(~mask, filler), mask
    )
    torch.testing.assert_close(found, expected)
