"""What stays in single or double precision under autocast."""

import pytest
import torch

from convs2s.nn.linear import to_autocast_dtype
from convs2s.translation.precision import cast_weights_
from tests.support.batches import random_batch
from tests.support.families import make, outputs, smoothed_loss


@torch.no_grad()
def test_attention_and_residual_sums_stay_in_single_precision():
    """Softmax and sums of layers in a pass under autocast, whatever the products give."""
    model, batch = make("convs2s"), random_batch([(5, 7), (3, 4)])
    with torch.autocast("cpu", torch.bfloat16):
        _, attention = outputs(model, batch["net_input"])
        padding = torch.zeros(2, 4, dtype=torch.bool)
        embedded = model.encoder.embed(batch["net_input"]["src_tokens"][:, :4], padding)
        summed, _ = model.encoder.blocks(model.encoder.input(embedded).to(embedded.dtype))
    assert attention.dtype == torch.float32
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 7))
    assert summed.dtype == torch.float32


@pytest.mark.parametrize(
    "name", ["convs2s", "adl-rnmt", "adl-mixers", "adl-gated-attention", "pervasive"]
)
def test_double_precision_stays(name):
    """As in autocast itself, which casts no number in double precision."""
    model, batch = make(name).double(), random_batch([(5, 7), (3, 4)])

    def loss_and_gradient():
        loss = smoothed_loss(model, batch)
        return loss, *torch.autograd.grad(loss, list(model.decoder.output.parameters()))

    expected = outputs(model, batch["net_input"])[0], *loss_and_gradient()
    with torch.autocast("cpu", torch.bfloat16):
        found = outputs(model, batch["net_input"])[0], *loss_and_gradient()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_cast_weights_leaves_vectors_and_embeddings():
    model = torch.nn.ModuleDict(
        {
            "table": torch.nn.Embedding(5, 3),
            "map": torch.nn.Linear(3, 5),
            "n": torch.nn.LayerNorm(3),
        }
    )
    cast_weights_(model, torch.bfloat16)
    assert model["map"].weight.dtype == torch.bfloat16
    kept = [model["table"].weight, model["map"].bias, model["n"].weight]
    assert {tensor.dtype for tensor in kept} == {torch.float32}


def test_to_autocast_dtype_outside_of_autocast_is_no_copy():
    x = torch.ones(2)
    assert to_autocast_dtype(x) is x
