"""Counts of floating-point operations in forward and backward passes."""

import torch
from torch import nn

from convs2s.nn.cross_entropy import linear_cross_entropy
from convs2s.nn.flops import count_matmul_flops


def test_linear_layer_and_its_gradients():
    layer, x = nn.Linear(6, 10), torch.randn(4, 6, requires_grad=True)
    counted = count_matmul_flops(lambda: layer(x).sum().backward())
    assert counted.flops == 3 * 2 * 4 * 6 * 10 and not counted.not_counted


def test_custom_backward_pass():
    features, weight = torch.randn(50, 8, requires_grad=True), torch.randn(30, 8).requires_grad_()
    target = torch.randint(30, (50,))
    counted = count_matmul_flops(
        lambda: linear_cross_entropy(features, weight, None, target).loss.backward()
    )
    assert counted.flops == 3 * 2 * 50 * 8 * 30


def test_convolution_of_fconv():
    x, weight = torch.randn(7, 2, 3), torch.randn(3, 3, 5)
    counted = count_matmul_flops(lambda: torch.conv_tbc(x, weight, torch.zeros(5), 1))
    assert counted.flops == 2 * 7 * 2 * 3 * 3 * 5


def test_recurrent_layers():
    layer, x = nn.LSTM(4, 6), torch.randn(3, 2, 4, requires_grad=True)
    counted = count_matmul_flops(lambda: layer(x)[0].sum().backward())
    forward = 3 * 2 * 2 * (4 * 6) * (4 + 6)
    # The initial hidden state needs no gradient.
    assert counted.flops == 3 * forward - 2 * 2 * (4 * 6) * 6 and not counted.not_counted
