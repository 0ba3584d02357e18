"""Causal convolution of each channel separately."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .gradient import first_derivatives_only
from .state import State

# On a CPU, some sentences are computed at a time, so that all taps find them in the cache: at most
# this many numbers.
NUMBERS = 2**18


def causal_depthwise_conv1d(
    x: Tensor, weight: Tensor, bias: Tensor, state: State | None = None
) -> Tensor:
    """y_t = b + sum_j w_j x_(t-k+1+j) for each channel, in single precision or better.

    Args:
        x: B x T x C; with a state, the T positions that follow those already decoded.
        weight: k x C, the leftmost input first.
        bias: C.
        state: incremental state, which caches the last k - 1 positions of x; None outside
            incremental decoding.
    Returns:
        B x T x C; inputs before the sequence are zero.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    weight, bias = weight.to(exact), bias.to(exact)
    span = len(weight) - 1
    if state is None and torch.compiler.is_compiling():
        padded, y = F.pad(x.to(exact), (0, 0, span, 0)), bias
        for tap in reversed(range(span + 1)):
            y = torch.addcmul(y, padded[:, tap : tap + x.size(1)], weight[tap])
        return y
    if state is None or span == 0:
        return _Convolution.apply(x.to(exact), weight, bias)
    before = state.rows.get("inputs")
    if before is None:
        before = x.new_zeros(x.size(0), span, x.size(-1))
    x = torch.cat([before, x], dim=1)
    state.rows["inputs"] = x[:, -span:]
    x = x.to(exact)
    if x.size(1) > span + 1:
        return _Convolution.apply(x, weight, bias)[:, span:]
    y = bias
    for tap in reversed(range(span + 1)):
        y = torch.addcmul(y, x[:, tap], weight[tap])
    return y.unsqueeze(1)


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        y = x.new_empty(x.shape)
        rows = _sentences_at_once(x)
        for inputs, outputs in zip(x.split(rows), y.split(rows)):
            torch.addcmul(bias, inputs, weight[-1], out=outputs)
            for shift in range(1, min(len(weight), x.size(1))):
                outputs[:, shift:].addcmul_(inputs[:, :-shift], weight[-1 - shift])
        return y

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = x.new_empty(x.shape), torch.zeros_like(weight)
        rows = _sentences_at_once(x)
        buffer = x.new_empty(x[:rows].shape)
        for inputs, grads, sums in zip(x.split(rows), grad.split(rows), of_x.split(rows)):
            products = buffer[: len(inputs)]
            torch.mul(grads, weight[-1], out=sums)
            of_weight[-1] += torch.mul(grads, inputs, out=products).sum(dim=(0, 1))
            for shift in range(1, min(len(weight), x.size(1))):
                later, part = grads[:, shift:], products[:, shift:]
                sums[:, :-shift].addcmul_(later, weight[-1 - shift])
                torch.mul(later, inputs[:, :-shift], out=part)
                of_weight[-1 - shift] += part.sum(dim=(0, 1))
        return of_x, of_weight, grad.sum(dim=(0, 1))


def _sentences_at_once(x: Tensor) -> int:
    return len(x) if x.device.type != "cpu" else max(1, NUMBERS // x[0].numel())
