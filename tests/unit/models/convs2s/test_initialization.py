"""Initialization and scaling (ConvS2S, sections 3.4 and 3.5, appendix A)."""

import math

import pytest
import torch

from convs2s.models.convs2s.gated_conv1d import GatedConv1d
from convs2s.models.convs2s.multi_step_attention import EncoderOutput, MultiStepAttention
from convs2s.nn.dropout import Dropout
from convs2s.nn.embedding import random_embedding_matrix
from convs2s.nn.gradient import scale_gradient
from convs2s.nn.linear import WeightNormLinear
from convs2s.nn.output import TiedOutputProjection
from tests.support.batches import loss_of_logits, random_batch
from tests.support.families import outputs, tiny_convs2s


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_glu_layer_keeps_the_variance(dropout):
    torch.manual_seed(1)
    layer = GatedConv1d(256, 256, 3, causal=False, dropout=dropout)
    x = torch.randn(8, 200, 256) * 0.1
    spread = layer(x)[:, 1:-1].std() / x.std()
    assert abs(spread - 1.0) < 0.05
    weight = layer.linear.effective_weight()
    assert abs(weight.std() - math.sqrt(4 * (1 - dropout) / (3 * 256))) < 1e-3
    assert not layer.linear.bias.any()


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_linear_layer_keeps_the_variance(dropout):
    torch.manual_seed(1)
    layer = WeightNormLinear(512, 512, dropout=dropout)
    x = torch.nn.functional.dropout(torch.randn(2000, 512), dropout)
    assert abs(layer(x).std() - 1.0) < 0.02
    assert not layer.bias.any()


def test_weight_norm_has_one_norm_per_output_channel():
    layer = WeightNormLinear(20, 30)
    torch.testing.assert_close(
        layer.effective_weight().norm(dim=1, keepdim=True), layer.weight_g.detach()
    )
    before = layer.effective_weight().clone()
    with torch.no_grad():
        layer.weight_v.mul_(3.0)
    torch.testing.assert_close(layer.effective_weight(), before)


def test_embeddings():
    torch.manual_seed(1)
    table = random_embedding_matrix(2000, 64, padding_idx=1)
    assert abs(table.weight[2:].std() - 0.1) < 1e-3 and not table.weight[1].any()
    assert not TiedOutputProjection(table).bias.any()


def test_the_context_is_scaled_by_the_root_of_the_true_length():
    model = tiny_convs2s().eval()
    sentence = random_batch([(5, 5), (9, 9)])["net_input"]["src_tokens"][:1]
    mask = sentence.eq(model.encoder.pad)
    assert mask.sum() == 4
    encoded = model.encoder.encode(sentence, mask)
    embedded = model.encoder.embed(sentence, mask)
    values = (encoded["encoder_out"] + embedded) * math.sqrt(0.5) * 5 * math.sqrt(1 / 5)
    torch.testing.assert_close(encoded["encoder_values"], values)


def test_a_layer_adds_the_context_to_its_input():
    torch.manual_seed(1)
    layer = MultiStepAttention(8, 8)
    with torch.no_grad():
        layer.query.weight_g.zero_()
    values = torch.randn(1, 9, 8)
    x, target = torch.randn(1, 1, 8), torch.zeros(1, 1, 8)
    mask = torch.zeros(1, 9, dtype=torch.bool)
    mask[0, 5:] = True
    source = EncoderOutput(torch.randn(1, 9, 8), values, mask)
    out, weights = layer(x, target, source, need_weights=True)
    torch.testing.assert_close(weights[0, 0, :5], torch.full((5,), 0.2))
    context = values[:, :5].mean(dim=1, keepdim=True)
    torch.testing.assert_close(out, (layer.output(context) + x) * math.sqrt(0.5))


def test_gradient_scaling():
    x = torch.ones(3, requires_grad=True)
    y = scale_gradient(x, 0.25)
    y.sum().backward()
    assert torch.equal(y, x) and torch.equal(x.grad, torch.full((3,), 0.25))


@pytest.mark.parametrize("attention, layers", [("True", 3), ("[True, False, True]", 2)])
def test_the_encoder_gradient_is_divided_by_the_attention_layers(attention, layers):
    """The gradient of the embeddings is not, because values contain them, too."""
    gradients = {}
    for scale in (None, 1.0):
        model = tiny_convs2s(decoder_attention=attention).train()
        if scale:
            model.encoder.gradient_scale = scale
        batch = random_batch([(7, 5), (3, 9)])
        loss_of_logits(outputs(model, batch["net_input"])[0], batch).backward()
        gradients[scale] = {n: p.grad for n, p in model.encoder.named_parameters()}
    for name, unscaled in gradients[1.0].items():
        scaled = gradients[None][name]
        if name.startswith("embed."):
            assert not torch.allclose(scaled * layers, unscaled, rtol=1e-3, atol=1e-8)
        else:
            torch.testing.assert_close(scaled * layers, unscaled, atol=1e-6, rtol=1e-4)


def test_dropout_is_where_the_paper_has_it():
    """For both embeddings, the input of each convolution and the input of the output layer."""
    model = tiny_convs2s(dropout=0.3)
    sides = ("encoder", "decoder")
    named = {n for n, m in model.named_modules() if isinstance(m, Dropout) and m.p == 0.3}
    convolutions = {f"{side}.blocks.convolutions.{i}.dropout" for side in sides for i in range(3)}
    assert named == convolutions | {
        "encoder.embed.dropout",
        "decoder.embed.dropout",
        "decoder.dropout",
    }
