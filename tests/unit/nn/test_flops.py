"""Counts of floating-point operations in forward and backward passes."""

import torch
from torch import nn

from benchmarks.roofline import large_matmul
from benchmarks.setting import Setting
from benchmarks.workloads import training
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


def test_equal_networks_have_about_equal_counts():
    settings = [
        Setting(arch, words=100, sentences=4, length=8, layers=2)
        for arch in ("convs2s_iwslt_de_en", "fconv_iwslt_de_en")
    ]
    ours, peer = (count_matmul_flops(training(setting).run).flops for setting in settings)
    assert 0.9 < ours / peer < 1.1


def test_the_masked_half_of_a_kernel_is_not_computed():
    settings = [
        Setting(arch, words=100, sentences=2, length=8, layers=2)
        for arch in ("pervasive", "plain_pervasive")
    ]
    ours, plain = (count_matmul_flops(training(setting).run).flops for setting in settings)
    # The k x k kernels are two thirds of the operations, and ours compute 3 of 5 rows.
    assert 0.5 < ours / plain < 0.95


def test_recurrent_layers():
    layer, x = nn.LSTM(4, 6), torch.randn(3, 2, 4, requires_grad=True)
    counted = count_matmul_flops(lambda: layer(x)[0].sum().backward())
    forward = 3 * 2 * 2 * (4 * 6) * (4 + 6)
    # The initial hidden state needs no gradient.
    assert counted.flops == 3 * forward - 2 * 2 * (4 * 6) * 6 and not counted.not_counted


def test_large_matmul_has_the_given_dtype():
    for dtype, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        matmul = large_matmul(dtype, "cpu")
        result = matmul.run()
        assert result.dtype == expected and matmul.flops == 2 * len(result) ** 3
