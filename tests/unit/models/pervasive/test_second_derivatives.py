"""The training pass of the DenseNet has only first derivatives, and says so."""

import pytest
import torch

from tests.support.batches import random_batch
from tests.support.families import outputs, tiny_pervasive


def test_second_derivatives_are_refused():
    model = tiny_pervasive().train()
    logits, _ = outputs(model, random_batch([(4, 3), (2, 5)])["net_input"])
    parameters = list(model.parameters())
    loss = logits.square().mean()
    with pytest.raises(RuntimeError, match="DenseNetFunction has only first derivatives"):
        torch.autograd.grad(loss, parameters, create_graph=True, allow_unused=True)
