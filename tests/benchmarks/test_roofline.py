"""What is counted of matrix products: all of them, in both directions."""

import pytest
import torch
from torch import nn

from benchmarks.roofline import count_products, large_product
from benchmarks.setting import Setting
from benchmarks.work import training
from convs2s_plugin.nn.cross_entropy import linear_cross_entropy


def test_a_linear_map_and_its_gradients():
    layer, x = nn.Linear(6, 10), torch.randn(4, 6, requires_grad=True)
    counted = count_products(lambda: layer(x).sum().backward())
    assert counted.flops == 3 * 2 * 4 * 6 * 10 and not counted.not_counted


def test_products_inside_our_own_gradients():
    features, weight = torch.randn(50, 8, requires_grad=True), torch.randn(30, 8).requires_grad_()
    target = torch.randint(30, (50,))
    counted = count_products(
        lambda: linear_cross_entropy(features, weight, None, target).loss.backward()
    )
    assert counted.flops == 3 * 2 * 50 * 8 * 30


def test_fconvs_convolution():
    x, weight = torch.randn(7, 2, 3), torch.randn(3, 3, 5)
    counted = count_products(lambda: torch.conv_tbc(x, weight, torch.zeros(5), 1))
    assert counted.flops == 2 * 7 * 2 * 3 * 3 * 5


def test_both_sides_of_an_equal_network_count_alike():
    settings = [
        Setting(arch, words=100, sentences=4, length=8, layers=2)
        for arch in ("convs2s_iwslt_de_en", "fconv_iwslt_de_en")
    ]
    ours, peer = (count_products(training(setting).whole).flops for setting in settings)
    assert 0.9 < ours / peer < 1.1


def test_the_masked_half_of_a_kernel_is_not_computed():
    settings = [
        Setting(arch, words=100, sentences=2, length=8, layers=2)
        for arch in ("pervasive", "plain_pervasive")
    ]
    ours, plain = (count_products(training(setting).whole).flops for setting in settings)
    # The k x k kernels are two thirds of the products here, and we compute 3 of 5 rows.
    assert 0.5 < ours / plain < 0.95


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="names mkldnn's operation")
def test_recurrent_layers_are_named_because_they_are_not_seen():
    layer, x = nn.LSTM(4, 4), torch.randn(3, 2, 4)
    counted = count_products(lambda: layer(x)[0].sum().backward())
    assert counted.not_counted == ["mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"]


def test_the_large_product_is_of_the_precision_of_the_work():
    for dtype, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        product = large_product(dtype, "cpu")
        found = product.work()
        assert found.dtype == expected and product.flops == 2 * len(found) ** 3
