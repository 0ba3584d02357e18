"""Floating-point operations of the workloads."""

import torch

from benchmarks.roofline import large_matmul
from benchmarks.setting import Setting
from benchmarks.workloads import training
from convs2s.nn.flops import count_matmul_flops


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


def test_large_matmul_has_the_given_dtype():
    for dtype, expected in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        matmul = large_matmul(dtype, "cpu")
        result = matmul.run()
        assert result.dtype == expected and matmul.flops == 2 * len(result) ** 3
