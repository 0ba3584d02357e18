"""Normalization by the root mean square, against its formula."""

import pytest
import torch

from convs2s.nn.normalization import RmsNorm, rms_norm


def formula(x, weight, epsilon):
    return x / (x.square().mean(dim=-1, keepdim=True) + epsilon).sqrt() * weight


def values_and_gradients(function, x, weight, epsilon=0.1):
    inputs = x.clone().requires_grad_(), weight.clone().requires_grad_()
    y = function(*inputs, epsilon)
    return y, *torch.autograd.grad(y, inputs, torch.ones_like(y).cumsum(dim=1))


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    return torch.randn(3, 5, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)


def test_values_and_gradients(inputs):
    for actual, expected in zip(
        values_and_gradients(rms_norm, *inputs), values_and_gradients(formula, *inputs)
    ):
        torch.testing.assert_close(actual, expected)


def test_without_gradients(inputs):
    expected = formula(*inputs, 0.1)
    with torch.no_grad():
        torch.testing.assert_close(rms_norm(*inputs, 0.1), expected)


def test_the_module_has_the_precision_of_its_weights(inputs):
    x, weight = inputs
    module = RmsNorm(8, 0.1)
    assert list(module.state_dict()) == ["weight"] and torch.equal(module.weight, torch.ones(8))
    module.weight.data = weight
    torch.testing.assert_close(module(x), formula(x, weight, 0.1))
    for dtype in (torch.float32, torch.bfloat16):
        y = module.to(dtype)(x.bfloat16())
        assert y.dtype == dtype
        torch.testing.assert_close(
            y.double(),
            formula(x.bfloat16().double(), module.weight.double(), 0.1),
            rtol=1e-2,
            atol=1e-2,
        )


def test_autocast_changes_nothing(inputs):
    x, weight = (each.float() for each in inputs)
    expected = values_and_gradients(rms_norm, x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        y = rms_norm(x.requires_grad_(), weight.requires_grad_(), 0.1)
    actual = y, *torch.autograd.grad(y, (x, weight), torch.ones_like(y).cumsum(dim=1))
    for one, other in zip(actual, expected):
        assert torch.equal(one, other)


def test_half_precision_is_computed_in_single(inputs):
    x, weight = inputs
    y = rms_norm(x.bfloat16(), weight, 0.1)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y.double(), formula(x.bfloat16().double(), weight, 0.1))
