"""Unfolded convolution against torch's, in one pass and incrementally."""

import pytest
import torch
from torch.nn import functional as F

from convs2s.nn.conv1d import conv1d
from convs2s.nn.state import State

B, T, C, OUT = 2, 7, 3, 5


def inputs(kernel_size):
    generator = torch.Generator().manual_seed(1)
    shapes = (B, T, C), (OUT, kernel_size * C), (OUT,)
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


@pytest.mark.parametrize("kernel_size", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_equals_torchs_convolution(kernel_size, dilation, causal):
    x, weight, bias = inputs(kernel_size)
    span = (kernel_size - 1) * dilation
    left = span if causal else span // 2
    expected = F.conv1d(
        F.pad(x.transpose(1, 2), (left, span - left)),
        weight.view(OUT, kernel_size, C).transpose(1, 2),
        bias,
        dilation=dilation,
    )
    found = conv1d(x, weight, bias, kernel_size, dilation, causal)
    torch.testing.assert_close(found, expected.transpose(1, 2))


@pytest.mark.parametrize("kernel_size, dilation", [(1, 1), (3, 1), (3, 2)])
def test_incremental_steps_equal_one_pass(kernel_size, dilation):
    x, weight, bias = inputs(kernel_size)
    expected = conv1d(x, weight, bias, kernel_size, dilation, causal=True)
    state, found = State(), []
    for start, end in ((0, 2), (2, 3), (3, 4), (4, T)):
        step = x[:, start:end]
        found.append(conv1d(step, weight, bias, kernel_size, dilation, True, state))
    torch.testing.assert_close(torch.cat(found, dim=1), expected)
