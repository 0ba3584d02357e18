"""fairseq's criterion with alignments: values, gradients, layers and heads."""

from argparse import Namespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)

from convs2s.common.errors import UserError
from tests.support.adapters import dictionary, make, tiny_adl
from tests.support.batches import random_batch
from tests.support.families import MODELS

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 4)]
# Source and target positions in each sentence; two source words of one target word, and none.
PAIRS = [[(0, 0), (5, 1), (2, 3)], [(0, 6), (1, 6), (1, 2)], []]
WEIGHT = 0.7


def batch_with_alignments(left_pad_source=True):
    """A batch as fairseq collates it, and its pairs (sentence, target column, source column)."""
    batch = random_batch(LENGTHS, left_pad_source)
    width, target_width = (batch["net_input"]["src_tokens"].size(1), batch["target"].size(1))
    indices, weights, cells = [], [], []
    for number, pairs in enumerate(PAIRS):
        offset = width - LENGTHS[number][0] if left_pad_source else 0
        targets = [target for _, target in pairs]
        for source, target in pairs:
            indices.append((offset + source, number * target_width + target))
            weights.append(1 / targets.count(target))
            cells.append((number, target, offset + source))
    batch["alignments"], batch["align_weights"] = torch.tensor(indices), torch.tensor(weights)
    return batch, cells


def criterion():
    task = Namespace(target_dictionary=dictionary())
    return LabelSmoothedCrossEntropyCriterionWithAlignment(task, False, 0.1, WEIGHT)


def attention(model, batch, **options):
    """The attention R x T x S of one forward pass, of the reference for pervasive attention."""
    if model.decoder.aligns_tokens:
        options["target_tokens"] = batch["target"]
    return model(**batch["net_input"], need_attn=True, **options)[1]["attn"][0]


@EVERY_MODEL
@pytest.mark.parametrize("left_pad_source", [True, False])
def test_the_loss_is_that_of_the_attention(name, left_pad_source):
    model = make(name, need_attn=False).double()
    batch, cells = batch_with_alignments(left_pad_source)
    weights = attention(model, batch)
    expected = -sum(
        weight * weights[cell].log() for cell, weight in zip(cells, batch["align_weights"])
    )
    loss, _, log = criterion()(model, batch)
    assert log["alignment_loss"] == pytest.approx(expected.item(), rel=1e-6)
    without, _, _ = criterion()(model, {**batch, "alignments": None})
    # fairseq computes the cross-entropy in single precision.
    torch.testing.assert_close(loss, (without + WEIGHT * expected).float())


@EVERY_MODEL
def test_the_gradient_is_that_of_the_loss(name):
    """The derivative in a random direction, against a finite difference."""
    model = make(name, need_attn=False).double().train()
    if hasattr(model.encoder, "gradient_scale"):
        # ConvS2S divides the gradient of the encoder output on purpose.
        model.encoder.gradient_scale = 1.0
    batch, _ = batch_with_alignments()
    parameters = [value for value in model.parameters() if value.requires_grad]
    torch.manual_seed(1)
    directions = [torch.randn_like(value) for value in parameters]

    def alignment_loss():
        net_output = model(
            **batch["net_input"],
            need_attn=True,
            **({"target_tokens": batch["target"]} if model.decoder.aligns_tokens else {}),
        )
        return criterion().compute_alignment_loss(batch, net_output)

    gradients = torch.autograd.grad(alignment_loss(), parameters, allow_unused=True)
    derivative = sum(
        (gradient * direction).sum()
        for gradient, direction in zip(gradients, directions)
        if gradient is not None
    )
    step, losses = 1e-8, []
    with torch.no_grad():
        for sign in (1, -1):
            for value, direction in zip(parameters, directions):
                value.add_(direction, alpha=sign * step)
            losses.append(alignment_loss())
            for value, direction in zip(parameters, directions):
                value.sub_(direction, alpha=sign * step)
    assert derivative.abs() > 1e-3
    torch.testing.assert_close(derivative, (losses[0] - losses[1]) / (2 * step), rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("name", "layers"),
    [("convs2s", 3), ("convs2s-some-attention", 2), ("adl-transformer", 2), ("adl-blocks", 3)],
)
def test_layers_are_those_of_the_mean(name, layers):
    batch, _ = batch_with_alignments()
    model = make(name).double()
    by_layer = [attention(model, batch, alignment_layer=number) for number in range(layers)]
    torch.testing.assert_close(torch.stack(by_layer).mean(dim=0), attention(model, batch))
    assert (by_layer[0] - by_layer[1]).abs().max() > 1e-3
    chosen = make(name, alignment_layer=1).double()
    torch.testing.assert_close(attention(chosen, batch), by_layer[1])


@pytest.mark.parametrize("layer", [-1, 3])
def test_a_layer_that_is_missing_is_refused(layer):
    with pytest.raises(UserError, match=f"--alignment-layer is {layer}, but the decoder has 3"):
        make("convs2s", alignment_layer=layer)


def test_heads_of_a_layer():
    with pytest.raises(UserError, match="--alignment-heads is 5, .* has 4 heads"):
        make("adl-transformer", alignment_layer=0, alignment_heads=5)
    with pytest.raises(UserError, match="has 1 heads"):
        make("adl-blocks", alignment_heads=2)
    batch, _ = batch_with_alignments()
    model = make("adl-transformer").double()
    four = attention(model, batch, alignment_layer=0, alignment_heads=4)
    torch.testing.assert_close(four, attention(model, batch, alignment_layer=0))
    chosen = make("adl-transformer", alignment_layer=0, alignment_heads=1).double()
    assert (attention(chosen, batch) - four).abs().max() > 1e-3


def test_a_model_without_attention_is_refused():
    adl = dict(encoder_adl="pos -> ffl", decoder_adl="pos -> ffl")
    model = tiny_adl(**adl)
    with pytest.raises(UserError, match="this model has none"):
        criterion()(model, batch_with_alignments()[0])
    with pytest.raises(UserError, match="no layer of the decoder attends"):
        tiny_adl(**adl, alignment_layer=0)
