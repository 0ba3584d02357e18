"""Weights cast in advance give the logits of autocast."""

import pytest
import torch

from convs2s_plugin.tasks.autocast import Precision
from tests.families import MODELS, make
from tests.helpers import random_batch, tiny_fairseq_transformer

MAKERS = {
    **{name: lambda name=name: make(name) for name in MODELS},
    "transformer": tiny_fairseq_transformer,
}


@pytest.mark.parametrize("name", MAKERS)
@torch.no_grad()
def test_weights_cast_in_advance_equal_autocast(name):
    model, batch = MAKERS[name]().eval(), random_batch([(5, 7), (3, 4)])
    precision = Precision("bfloat16")
    with precision.autocast(model):
        expected, _ = model(**batch["net_input"])
    if name.startswith("convs2s"):
        model.make_generation_fast_()
    precision.cast_(model)
    types = {p.dtype for p in model.parameters()}
    assert types == {torch.float32, torch.bfloat16}
    with precision.autocast(model):
        scores, _ = model(**batch["net_input"])
    assert scores.dtype == torch.bfloat16
    # Embeddings that are also the weights of the output layer are rounded too.
    torch.testing.assert_close(scores.float(), expected.float(), rtol=0.05, atol=0.05)
