"""Pervasive attention equals the plain network of its paper: outputs, gradients, statistics."""

import pytest
import torch

from convs2s_plugin.pervasive import densenet_inference, densenet_training, feature_buffer
from tests.pervasive import pairs, run, sentences, twins

VARIANTS = {
    "max": {},
    "avg": dict(aggregator_name="avg"),
    "attn": dict(aggregator_name="attn"),
    "max+attn": dict(aggregator_name="max+attn"),
    "gated": dict(gated=True),
    "kernel 5": dict(kernel_size=5),
    "kernel 1": dict(kernel_size=1),
    "no halving": dict(halve_input=False),
    "no transition": dict(transition=False),
    "neither": dict(halve_input=False, transition=False, aggregator_name="max+attn", gated=True),
}


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Blocks of 32 cells (in double precision), so that the smallest batch has several."""
    monkeypatch.setattr(feature_buffer, "ROW_BYTES", 256)
    monkeypatch.setattr(densenet_inference, "CELLS", 32)


def compare(ours, plain, batch):
    """Outputs, loss, all gradients and all statistics of both networks for one batch."""
    source_padding, target_padding = batch[2:] if len(batch) > 2 else (None, None)
    real = torch.ones(batch[1].shape[:2], dtype=torch.bool)
    if target_padding is not None:
        real = ~target_padding
    results = []
    for model, features in ((ours, run(ours, *batch)), (plain, plain(*batch))):
        weights = torch.arange(features.size(-1), dtype=features.dtype).cos()
        loss = (features[real] * weights).sin().sum()
        names, parameters = zip(*model.named_parameters())
        gradients = torch.autograd.grad(loss, [*batch[:2], *parameters])
        tensors = {**dict(model.named_buffers()), **dict(zip(names, gradients[2:]))}
        results.append(((features[real], loss, *gradients[:2]), tensors))
    (mine, tensors), (others, expected) = results
    compared = {name: make(tensors) for name, make in pairs(ours, plain)}
    assert compared.keys() == plain.state_dict().keys()
    expected = {name: expected[name] for name in compared}
    torch.testing.assert_close((mine, compared), (others, expected), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("training", [True, False])
def test_equals_the_plain_network(variant, training):
    ours, plain = (model.train(training) for model in twins(**VARIANTS[variant]))
    compare(ours, plain, sentences([(7, 8), (7, 8)])[:2])
    compare(ours, plain, sentences(left_source=True))


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_equals_the_plain_network_with_normalisation_in_the_weights(variant):
    ours, plain = (model.eval() for model in twins(**VARIANTS[variant]))
    batch = sentences(left_source=True)
    for scale in (ours.dense.layers[1].norm1, plain.layers[1].norm1):
        # Neither sign is special, and a channel that is shut stays so.
        scale.weight[:3] = torch.tensor([0.0, -2.0, 1e-3])
    real = ~batch[3]
    torch.testing.assert_close(run(ours, *batch)[real], plain(*batch)[real], rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_what_is_not_a_number_is_not_hidden():
    model = twins(torch.float32)[0].eval()
    source, target, *_ = sentences([(3, 6)], dtype=torch.float32)
    target[:, 1] = torch.nan
    rows = run(model, source, target)[0].isnan().any(dim=1)
    assert rows.tolist() == [False, True, True]


@pytest.mark.parametrize("left_source", [True, False])
@pytest.mark.parametrize("left_target", [True, False])
def test_equals_the_plain_network_whatever_side_is_padded(left_source, left_target):
    ours, plain = twins(aggregator_name="max+attn")
    compare(ours, plain, sentences(left_source=left_source, left_target=left_target))


class DropoutOfGrids(torch.nn.Module):
    """Draws for B x C x T x S in the order of cells."""

    def forward(self, x):
        kept = densenet_training.draw_kept(x.permute(0, 2, 3, 1), 0.4)
        return densenet_training.drop(x, kept.permute(0, 3, 1, 2), 0.4)


@pytest.mark.parametrize("options", [dict(gated=True), dict(transition=False)])
def test_equals_the_plain_network_with_dropout(options, monkeypatch):
    ours, plain = twins(conv_dropout=0.4, **options)
    for layer in plain.layers:
        layer.dropout = DropoutOfGrids()
    generator = torch.Generator()
    monkeypatch.setattr(
        densenet_training, "draw_kept", lambda x, p: torch.rand(x.shape, generator=generator) >= p
    )
    batch = sentences([(7, 8), (7, 8)])[:2]
    forward = plain.forward

    def seeded(*args):
        generator.manual_seed(3)
        return forward(*args)

    plain.forward = seeded
    generator.manual_seed(3)
    compare(ours, plain, batch)
