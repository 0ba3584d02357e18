"""Convolution over source positions, and the current and previous target positions (Figure 1)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ...nn.int8 import Weight
from ...nn.linear import linear


def causal_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    """Convolve x, with the contributions to later target positions included.

    Args:
        x: R x T x S x H.
        weight: O x H x P x k; along P, the last element belongs to the current target position
            and the others to previous ones.
    Returns:
        R x (T + P - 1) x S x O: the T outputs, followed by the contributions of the T inputs to
        the next P - 1 outputs.
    """
    out = F.conv2d(_channels_second(x), kernel(weight, x.dtype), padding=_padding(weight))
    return out.permute(0, 2, 3, 1)


def weight_by_cell(weight: Tensor) -> Tensor:
    """The kernel as a linear map from a cell to its contributions to all outputs.

    Args:
        weight: O x H x P x k, as in ``causal_conv2d``.
    Returns:
        PkO x H: the contributions to the current output first, then those to later ones.
    """
    return weight.flip(2).permute(2, 3, 0, 1).flatten(0, 2)


def causal_conv2d_by_cell(x: Tensor, weight: Weight, kernel_size: tuple[int, int]) -> Tensor:
    """``causal_conv2d`` as one linear map of each cell, whose results overlap and add up.

    Args:
        x: R x T x S x H.
        weight: PkO x H, of ``weight_by_cell``.
        kernel_size: P and k.
    Returns:
        R x (T + P - 1) x S x O.
    """
    (rows, target_len, source_len, _), (later, width) = x.shape, kernel_size
    parts = linear(x, weight).view(rows, target_len, source_len, later, width, -1)
    out = x.new_zeros(rows, target_len + later - 1, source_len + width - 1, parts.size(-1))
    for i in range(later):
        for j in range(width):
            start = width - 1 - j
            out[:, i : i + target_len, start : start + source_len] += parts[:, :, :, i, j]
    return out[:, :, width // 2 : width // 2 + source_len]


def causal_conv2d_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of x and weight, if only the first T outputs are used.

    Args:
        grad: R x T x S x O, the gradient of these outputs.
        x, weight: as in ``causal_conv2d``.
    """
    target_padding, source_padding = _padding(weight)
    # A convolution with the flipped kernel computes the gradient of x. It is a fifth faster in
    # single precision than the backward pass of the libraries.
    flipped = kernel(weight.flip(2, 3).transpose(0, 1), x.dtype)
    padded_grad = _channels_second(F.pad(grad, (0, 0, 0, 0, 0, target_padding)))
    grad_x = F.conv2d(padded_grad, flipped, padding=(0, source_padding))
    # Padding only before the first position, because the libraries are slow at the gradient of
    # weights if there is padding after the last position.
    _, grad_weight, _ = torch.ops.aten.convolution_backward(
        _channels_second(grad),
        _channels_second(F.pad(x, (0, 0, 0, 0, target_padding, 0))),
        kernel(weight, x.dtype),
        None,
        [1, 1],
        [0, source_padding],
        [1, 1],
        False,
        [0, 0],
        1,
        [False, True, False],
    )
    return grad_x.permute(0, 2, 3, 1), grad_weight


def kernel(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """The weight in the type and memory format of the convolution, not copied if it has both."""
    return weight.to(dtype, memory_format=torch.channels_last)


def _channels_second(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _padding(weight: Tensor) -> tuple[int, int]:
    """Padding of the target dimension and of the source dimension."""
    return weight.size(2) - 1, weight.size(3) // 2
