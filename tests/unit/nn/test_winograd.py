"""Winograd's algorithm against unfolding and one matrix multiplication."""

import pytest
import torch

from convs2s.models.convs2s.gated_conv1d import GatedConv1d
from convs2s.nn import conv1d
from convs2s.nn.conv1d import should_use_winograd, unfold, winograd_conv1d
from convs2s.nn.linear import linear


def inputs(length, dtype=torch.float64, batch=3, channels=6, outputs=10):
    generator = torch.Generator().manual_seed(length)
    shapes = (batch, length, channels), (outputs, 3 * channels), (outputs,)
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 25])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_unfolded_convolution(length, causal):
    x, weight, bias = inputs(length)
    expected = linear(unfold(x, 3, causal=causal), weight, bias)
    actual = winograd_conv1d(x, weight, bias, left=2 if causal else 1)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-12)
    grad = torch.randn_like(expected)
    found = [torch.autograd.grad(y, (x, weight, bias), grad) for y in (actual, expected)]
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("required", range(3))
def test_only_the_required_gradients(required):
    tensors = inputs(9)
    grads = torch.autograd.grad(winograd_conv1d(*tensors, left=2).sum(), tensors)
    for i, tensor in enumerate(tensors):
        tensor.grad = None
        tensor.requires_grad_(i == required)
    winograd_conv1d(*tensors, left=2).sum().backward()
    assert torch.equal(tensors[required].grad, grads[required])


def test_noncontiguous_output_gradient():
    tensors = inputs(8)
    grad = torch.randn(3, 10, 8, dtype=torch.float64)
    found = [
        torch.autograd.grad(winograd_conv1d(*tensors, left=1), tensors, each)
        for each in (grad.transpose(1, 2), grad.transpose(1, 2).contiguous())
    ]
    torch.testing.assert_close(*found)


def test_rounding_errors_in_single_precision():
    exact = inputs(48, channels=256, outputs=512)
    single = [tensor.detach().float() for tensor in exact]
    expected = linear(unfold(exact[0], 3), *exact[1:])
    direct = linear(unfold(single[0], 3), *single[1:])
    errors = [(y - expected).norm() for y in (winograd_conv1d(*single, left=1), direct)]
    assert errors[0] < 5 * errors[1]


@pytest.mark.parametrize("causal", [True, False])
def test_a_layer_uses_it_if_it_is_faster(causal, monkeypatch):
    layer = GatedConv1d(128, 32, 3, causal=causal).double()
    x = torch.randn(20, 28, 128, dtype=torch.float64)
    padding = torch.arange(28) >= torch.randint(1, 28, (20, 1))
    calls = []

    def counted(*arguments, left):
        calls.append(left)
        return winograd_conv1d(*arguments, left=left)

    monkeypatch.setattr(conv1d, "winograd_conv1d", counted)
    fast = layer(x, padding)
    assert calls == [2 if causal else 1]
    monkeypatch.setattr(conv1d, "should_use_winograd", lambda x, weight: False)
    torch.testing.assert_close(fast, layer(x, padding), rtol=1e-11, atol=1e-12)
    assert len(calls) == 1


def test_should_use_winograd():
    x, weight = torch.empty(64, 24, 256), torch.empty(512, 768)
    assert should_use_winograd(x, weight)
    # Six tiles a sentence.
    assert should_use_winograd(x[:22], weight) and not should_use_winograd(x[:21], weight)
    # Three tiles, which compute twelve outputs.
    assert should_use_winograd(x[:, :10], weight) and not should_use_winograd(x[:, :9], weight)
    assert should_use_winograd(x[..., :128], weight)
    assert not should_use_winograd(x[..., :127], weight)
    assert not should_use_winograd(x.bfloat16(), weight.bfloat16())
    assert not should_use_winograd(x.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not should_use_winograd(x, weight)
