"""1-D convolution as one matrix multiplication of unfolded inputs."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from .autocast import to_autocast_dtype
from .int8 import Int8Matrix, Weight
from .linear import linear
from .winograd import should_use_winograd, winograd_conv1d

if TYPE_CHECKING:
    from .state import State


def conv1d(
    x: Tensor,
    weight: Weight,
    bias: Tensor,
    kernel_size: int,
    dilation: int = 1,
    causal: bool = False,
    state: "State | None" = None,
) -> Tensor:
    """1-D convolution by the fastest algorithm for x.

    Args:
        x: B x T x C. Arguments that are not described here are those of ``unfold``.
        weight: C' x kC, the leftmost input first; in 8 bits or not.
        bias: C'.
    Returns:
        B x T x C'.
    """
    if not isinstance(weight, Int8Matrix) and state is None and (kernel_size, dilation) == (3, 1):
        if should_use_winograd(x, weight):
            return winograd_conv1d(x, weight, bias, left=2 if causal else 1)
    return linear(unfold(to_autocast_dtype(x), kernel_size, dilation, causal, state), weight, bias)


def unfold(
    x: Tensor,
    kernel_size: int,
    dilation: int = 1,
    causal: bool = False,
    state: "State | None" = None,
) -> Tensor:
    """Concatenate the k inputs of each output position, so that a convolution is linear in them.

    Args:
        x: B x T x C; with a state, the T positions that follow those already decoded.
        kernel_size: k, odd or even.
        dilation: distance between the inputs of an output position (1).
        causal: whether position t has inputs up to position t only. Otherwise the inputs are
            centered; an even kernel has one more to the right (False).
        state: incremental state, which caches the last (k - 1) * dilation positions of x; None
            outside incremental decoding.
    Returns:
        B x T x kC, the leftmost input first; inputs beyond the sequence are zero.
    """
    length, span = x.size(1), (kernel_size - 1) * dilation
    if span == 0:
        return x
    if state is not None and "inputs" in state.rows:
        x = torch.cat([state.rows["inputs"], x], dim=1)
    else:
        left = span if causal else span // 2
        x = F.pad(x, (0, 0, left, span - left))
    if state is not None:
        state.rows["inputs"] = x[:, -span:]
    if length == 1:
        return x[:, ::dilation].reshape(x.size(0), 1, -1)
    starts = range(0, span + 1, dilation)
    return torch.cat([x[:, start : start + length] for start in starts], dim=-1)
