"""1-D convolution: the inputs of each position side by side, and their product with a weight."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ..decoding.state import State
from .autocast import to_autocast_dtype
from .linear import linear
from .winograd import should_use_winograd, winograd_conv1d


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    kernel_size: int,
    dilation: int = 1,
    causal: bool = False,
    state: State | None = None,
) -> Tensor:
    """The product of what each position sees with a weight, in whichever way is the fastest.

    Args:
        x: B x T x C; other arguments as those of ``unfold``.
        weight: C' x kC, for the leftmost input first.
        bias: C'.
    Returns:
        B x T x C'.
    """
    if state is None and (kernel_size, dilation) == (3, 1) and should_use_winograd(x, weight):
        return winograd_conv1d(x, weight, bias, left=2 if causal else 1)
    return linear(unfold(to_autocast_dtype(x), kernel_size, dilation, causal, state), weight, bias)


def unfold(
    x: Tensor,
    kernel_size: int,
    dilation: int = 1,
    causal: bool = False,
    state: State | None = None,
) -> Tensor:
    """Lay the k inputs of each position side by side.

    A convolution is then one matrix product with one weight layout, in training and in generation
    alike.

    Args:
        x: B x T x C; with a state, the T positions that follow those already seen.
        kernel_size: k, the number of positions that an output sees; even widths too.
        dilation: distance of neighbouring inputs (1).
        causal: see this and earlier positions only; centred otherwise, where an even kernel sees
            one more position to the right.
        state: where the (k - 1) * dilation last inputs are kept; None for a full pass.
    Returns:
        B x T x kC, the leftmost input first; zeros beyond the ends.
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
        return x[:, ::dilation].reshape(len(x), 1, -1)
    starts = range(0, span + 1, dilation)
    return torch.cat([x[:, start : start + length] for start in starts], dim=-1)
