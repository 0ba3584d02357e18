"""Every pass of the DenseNet drops features with the network's Dropout module."""

import pytest
import torch

from convs2s.nn.dropout import Dropout
from convs2s.nn.state import State
from tests.support.pervasive import network, run, sentences


class DropFirstChannels(Dropout):
    """Drop the first half of the channels instead of random elements, without scaling."""

    def sample_mask(self, x):
        if not self.active:
            return None
        mask = torch.ones_like(x)
        mask[:, : x.size(1) // 2] = 0.0
        return mask

    def apply_mask(self, x, mask):
        return x if mask is None else x * mask


def without_first_channels(**options):
    """A network whose layers' convolutions do not compute the first half of the new channels."""
    model = network(**options)
    with torch.no_grad():
        for layer in model.dense.layers:
            if layer.conv2 is not None:
                layer.conv2[: len(layer.conv2) // 2] = 0.0
    return model


def with_subclass():
    """A network whose dropout module is replaced by a subclass."""
    model = network()
    model.dense.dropout = DropFirstChannels(0.5)
    return model


def test_a_subclass_changes_the_training_and_the_backward_pass():
    batch, results = sentences(), []
    for model in (with_subclass(), without_first_channels()):
        features = run(model, *batch)
        loss = features[~batch[3]].sin().sum()
        names, parameters = zip(*model.named_parameters())
        gradients = torch.autograd.grad(loss, [*batch[:2], *parameters])
        results.append([features, *gradients])
    for name, actual, expected in zip(["features", "source", "target", *names], *results):
        if "conv2" in name:
            # No gradient reaches the kernels of dropped channels.
            half = len(actual) // 2
            assert not actual[:half].any()
            actual, expected = actual[half:], expected[half:]
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("gradient", [True, False])
def test_a_subclass_changes_training_with_and_without_a_gradient(gradient):
    with torch.set_grad_enabled(gradient):
        actual = run(with_subclass(), *sentences())
    torch.testing.assert_close(actual, run(without_first_channels(), *sentences()))


@torch.no_grad()
def test_a_subclass_changes_inference_with_retained_dropout():
    model, expected = with_subclass().eval(), without_first_channels().eval()
    batch = sentences()
    assert not torch.equal(run(model, *batch), run(expected, *batch))
    model.dense.dropout.always = True
    torch.testing.assert_close(run(model, *batch), run(expected, *batch))
    source, target, source_padding, target_padding = batch
    state, steps = State(), []
    for t in range(target.size(1)):
        now = slice(t, t + 1)
        padding = target_padding[:, now]
        steps.append(run(model, source, target[:, now], source_padding, padding, state))
    real = ~target_padding
    torch.testing.assert_close(torch.cat(steps, dim=1)[real], run(expected, *batch)[real])


def test_a_changed_probability_counts_from_the_next_pass_on():
    model = network(convolution_dropout=0.5)
    model.dense.dropout.p = 0.0
    torch.testing.assert_close(run(model, *sentences()), run(network(), *sentences()))


def test_retained_dropout_is_random_at_inference():
    model = network(torch.float32, convolution_dropout=0.5).eval()
    batch = sentences(dtype=torch.float32)
    with torch.no_grad():
        assert torch.equal(run(model, *batch), run(model, *batch))
        model.dense.dropout.always = True
        assert not torch.equal(run(model, *batch), run(model, *batch))
