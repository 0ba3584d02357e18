"""Second derivatives through functions with a backward pass of their own: right, or refused."""

import pytest
import torch
from torch.autograd import gradgradcheck

from convs2s.nn import linear as linear_module
from convs2s.nn.conv1d import winograd_conv1d
from convs2s.nn.cross_entropy import linear_cross_entropy
from convs2s.nn.depthwise_conv1d import causal_depthwise_conv1d
from convs2s.nn.dropout import Dropout
from convs2s.nn.gradient import scale_gradient
from convs2s.nn.linear import linear
from convs2s.nn.linear_attention import linear_attention
from convs2s.nn.normalization import rms_norm
from convs2s.nn.parts import sum_of_parts
from convs2s.nn.token_scores import token_log_probabilities


def normal(*shape, dtype=torch.double):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def cross_entropy(x):
    weight = torch.ones(7, 3, dtype=x.dtype)
    target = torch.tensor([0, 1, 2, 6])
    return linear_cross_entropy(x, weight, None, target, label_smoothing=0.1).loss


def attend(x, decays):
    x, log_decay = x[None, None], -decays[None, None].square()
    return linear_attention(x, x, x, log_decay)[0].sum()


REFUSED = {
    "cross entropy": cross_entropy,
    "log-probabilities": lambda x: token_log_probabilities(
        x, torch.ones(7, 3, dtype=x.dtype), None, torch.tensor([0, 1, 2, 6])
    ).sum(),
    "sum of parts": lambda x: sum_of_parts([lambda inputs: (inputs[0] ** 3).sum()], [x], []),
    "scaled gradient": lambda x: (scale_gradient(x, 0.5) ** 3).sum(),
    "linear attention": lambda x: attend(x, x[:, :1]),
    "linear attention with decays for each channel": lambda x: attend(x, x),
    "root mean square": lambda x: (rms_norm(x, x.new_ones(3), 1e-6) ** 3).sum(),
    "depthwise convolution": lambda x: (
        causal_depthwise_conv1d(x[None], x.new_ones(2, 3), x.new_ones(3)) ** 2
    ).sum(),
    "convolution": lambda x: (
        winograd_conv1d(x[None], x.new_ones(2, 9), x.new_ones(2), 2) ** 2
    ).sum(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    x = normal(4, 3)
    with pytest.raises(RuntimeError, match="has only first derivatives"):
        torch.autograd.grad(REFUSED[name](x), x, create_graph=True)
    torch.autograd.grad(REFUSED[name](x), x)


def test_linear_maps(monkeypatch):
    """By oneDNN, which computes small products only here."""
    monkeypatch.setattr(linear_module, "SMALL_PRODUCT", 0)
    x, weight, bias = (normal(*shape, dtype=torch.float32) for shape in ((4, 3), (2, 3), (2,)))
    parameters = x, weight, bias

    def second_derivatives(function):
        grads = torch.autograd.grad(
            (function(*parameters) ** 3).sum(), parameters, create_graph=True
        )
        return torch.autograd.grad(sum((grad**2).sum() for grad in grads), parameters)

    expected = second_derivatives(torch.nn.functional.linear)
    for actual, plain in zip(second_derivatives(linear), expected):
        torch.testing.assert_close(actual, plain, rtol=1e-4, atol=1e-4)


def test_dropout_is_linear_twice():
    dropout = Dropout(0.4).train()
    x = normal(5, 6)

    def dropped(x):
        torch.manual_seed(3)
        return dropout(x) ** 3

    assert gradgradcheck(dropped, (x,))
