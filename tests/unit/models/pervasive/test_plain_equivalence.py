"""Pervasive attention equals the plain network: outputs, gradients and batch statistics."""

import pytest
import torch

from convs2s.models.pervasive import (
    densenet_inference,
    feature_buffer,
)
from convs2s.nn.dropout import BITS, Dropout
from tests.support.pervasive import pairs, run, sentences, twins

VARIANTS = {
    "max": {},
    "avg": dict(aggregator="avg"),
    "attn": dict(aggregator="attn"),
    "max+attn": dict(aggregator="max+attn"),
    "gated": dict(gated=True),
    "kernel 5": dict(kernel_size=5),
    "kernel 1": dict(kernel_size=1),
    "no halving": dict(no_halving=True),
    "no transition": dict(no_transition=True),
    "neither": dict(no_halving=True, no_transition=True, aggregator="max+attn", gated=True),
}


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Small blocks (32 cells in double precision), so that the smallest batch has several."""
    monkeypatch.setattr(feature_buffer, "ROW_BYTES", 256)
    monkeypatch.setattr(densenet_inference, "CHUNK", 32)


def compare(ours, plain, batch):
    """Compare outputs, loss, all gradients and all statistics of both networks for one batch."""
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
    (actual, tensors), (expected, expected_tensors) = results
    actual_tensors = {name: build(tensors) for name, build in pairs(ours, plain)}
    assert actual_tensors.keys() == plain.state_dict().keys()
    expected_tensors = {name: expected_tensors[name] for name in actual_tensors}
    torch.testing.assert_close(
        (actual, actual_tensors), (expected, expected_tensors), rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("training", [True, False])
def test_equals_the_plain_network(variant, training):
    ours, plain = (model.train(training) for model in twins(**VARIANTS[variant]))
    compare(ours, plain, sentences([(7, 8), (7, 8)])[:2])
    compare(ours, plain, sentences(left_source=True))


def test_after_some_updates_training_normalizes_as_generation_does():
    ours, plain = twins(statistics_updates=3)
    for updates in (2, 3, 5, 0):
        ours.train().dense.set_num_updates(updates)
        plain.train(updates < 3)
        before = {name: buffer.clone() for name, buffer in ours.named_buffers()}
        compare(ours, plain, sentences(left_source=True))
        unchanged = all(torch.equal(before[name], now) for name, now in ours.named_buffers())
        assert unchanged == (updates >= 3)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_equals_the_plain_network_with_normalization_folded_into_the_weights(variant):
    ours, plain = (model.eval() for model in twins(**VARIANTS[variant]))
    batch = sentences(left_source=True)
    for norm in (ours.dense.layers[1].norm1, plain.layers[1].norm1):
        # A scale may be zero, negative or small.
        norm.weight[:3] = torch.tensor([0.0, -2.0, 1e-3])
    real = ~batch[3]
    torch.testing.assert_close(run(ours, *batch)[real], plain(*batch)[real], rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_nan_reaches_the_output():
    model = twins(torch.float32)[0].eval()
    source, target, *_ = sentences([(3, 6)], dtype=torch.float32)
    target[:, 1] = torch.nan
    rows = run(model, source, target)[0].isnan().any(dim=1)
    assert rows.tolist() == [False, True, True]


@pytest.mark.parametrize("left_source", [True, False])
@pytest.mark.parametrize("left_target", [True, False])
def test_equals_the_plain_network_with_padding_on_either_side(left_source, left_target):
    ours, plain = twins(aggregator="max+attn")
    compare(ours, plain, sentences(left_source=left_source, left_target=left_target))


class SeededDropout(Dropout):
    """Dropout with the masks of its own random number generator."""

    def __init__(self, p):
        super().__init__(p)
        self.generator = torch.Generator().manual_seed(3)

    def sample_mask(self, x):
        return (torch.rand(x.shape, generator=self.generator) >= self.p).to(torch.int16).neg()


class SeededDropoutOfGrids(SeededDropout):
    """The same masks for B x C x T x S instead of a list of cells."""

    def forward(self, x):
        mask = self.sample_mask(x.permute(0, 2, 3, 1))
        return x * mask.permute(0, 3, 1, 2) * (-1 / (1 - round(self.p * 2**BITS) / 2**BITS))


@pytest.mark.parametrize("options", [dict(gated=True), dict(no_transition=True)])
def test_equals_the_plain_network_with_dropout(options):
    ours, plain = twins(**options)
    ours.dense.dropout, dropout = SeededDropout(0.4), SeededDropoutOfGrids(0.4)
    for layer in plain.layers:
        layer.dropout = dropout
    compare(ours, plain, sentences([(7, 8), (7, 8)])[:2])
