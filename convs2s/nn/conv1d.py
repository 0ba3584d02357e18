"""1-D convolution, by one matrix multiplication of unfolded inputs or by Winograd's algorithm.

Winograd's algorithm F(4, 3) (Lavin and Gray 2016) is for kernel size 3. A tile is four consecutive
outputs. Computed directly, a tile needs twelve multiplications of an input with a weight. The
algorithm transforms the tile's six inputs and the three weights to six numbers each, multiplies
them pairwise, and transforms the six products to the four outputs. Here inputs are vectors and
weights are matrices: the algorithm needs half the matrix multiplications, and the transforms cost
little in comparison. Each gradient takes six matrix multiplications as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .gradient import first_derivatives_only
from .int8 import Int8Matrix, Weight
from .linear import is_eager_cpu, linear, to_autocast_dtype
from .state import State

TILE = 4
# With fewer channels, or fewer tiles in a batch, the transforms cost more than the matrix
# multiplications that they save. Measured on two cores of an AMD EPYC with AVX-512.
MIN_CHANNELS, MIN_TILES = 128, 128

_direct: ContextVar[bool] = ContextVar("direct_convolution", default=False)


@contextmanager
def direct_convolution() -> Iterator[None]:
    """In its body, convolutions avoid Winograd's algorithm, so that operations can be counted."""
    token = _direct.set(True)
    try:
        yield
    finally:
        _direct.reset(token)


def conv1d(
    x: Tensor,
    weight: Weight,
    bias: Tensor,
    kernel_size: int,
    dilation: int = 1,
    causal: bool = False,
    state: State | None = None,
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
    state: State | None = None,
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


def should_use_winograd(x: Tensor, weight: Tensor) -> bool:
    """Whether ``winograd_conv1d`` is faster than unfolding x and one matrix multiplication."""
    batch, length, channels = x.shape
    tiles = -(-length // TILE)
    return (
        is_eager_cpu(x)
        and not _direct.get()
        and x.dtype == weight.dtype
        and x.dtype in (torch.float32, torch.float64)
        and channels >= MIN_CHANNELS
        and batch * tiles >= MIN_TILES
        # At most a fifth of the computed outputs is beyond the end and discarded.
        and 4 * TILE * tiles <= 5 * length
    )


def winograd_conv1d(x: Tensor, weight: Tensor, bias: Tensor, left: int) -> Tensor:
    """1-D convolution with kernel size 3.

    Equal to direct convolution up to rounding. Rounding may let a later input of the same tile
    change the last bits of an output, even if the convolution is causal.

    Args:
        x: B x T x C.
        weight: C' x 3C, the leftmost input first.
        bias: C'.
        left: how many of the three inputs precede the output position, from 0 to 2 (2 is causal);
            inputs beyond the sequence are zero.
    Returns:
        B x T x C'.
    """
    return _WinogradConv1d.apply(x, weight, bias, left)


class _WinogradConv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, left: int) -> Tensor:
        tiles = -(-x.size(1) // TILE)
        inputs = _transform_inputs(_pad(x, left, TILE * (tiles + 1)))
        weights = _transform_weight(weight)
        ctx.save_for_backward(*inputs, *weights)
        ctx.left = left
        # Every output contains product 1 with factor 1, so the bias is added there.
        biases = None, bias, None, None, None, None
        products = [linear(*factors) for factors in zip(inputs, weights, biases)]
        return _transform_products(products)[:, : x.size(1)]

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors[:6], ctx.saved_tensors[6:]
        length, tiles = grad.size(1), inputs[0].size(1)
        grads = _transform_products_backward(_pad(grad, 0, TILE * tiles))
        x_grad = weight_grad = bias_grad = None
        if ctx.needs_input_grad[0]:
            x_grad = _transform_inputs_backward([linear(g, w.t()) for g, w in zip(grads, weights)])
            x_grad = x_grad[:, ctx.left : ctx.left + length]
        if ctx.needs_input_grad[1]:
            weight_grad = _weight_backward(grads, inputs)
        if ctx.needs_input_grad[2]:
            bias_grad = grads[1].sum(dim=(0, 1))
        return x_grad, weight_grad, bias_grad, None


def _pad(x: Tensor, left: int, length: int) -> Tensor:
    """Pad x with zeros: ``left`` positions before it, and ``length`` positions in all."""
    padded = x.new_empty(len(x), length, x.size(-1))
    padded[:, :left] = padded[:, left + x.size(1) :] = 0.0
    padded[:, left : left + x.size(1)] = x
    return padded


def _transform_inputs(x: Tensor) -> list[Tensor]:
    """Six transformed inputs B x n x C of n tiles; x is B x 4(n + 1) x C."""
    x = x.view(len(x), -1, TILE, x.size(-1))
    x0, x1, x2, x3 = x[:, :-1].unbind(2)
    x4, x5 = x[:, 1:, 0], x[:, 1:, 1]
    even, odd = (x2 * (2 / 3)).sub_(x4, alpha=1 / 6), (x1 * (2 / 3)).sub_(x3, alpha=1 / 6)
    wide_even, wide_odd = (x4 - x2).mul_(1 / 24), (x3 - x1).mul_(1 / 12)
    return [
        torch.sub(x0, x2, alpha=5 / 4).add_(x4, alpha=1 / 4),
        even + odd,
        even.sub_(odd),
        wide_even + wide_odd,
        wide_even.sub_(wide_odd),
        torch.sub(x5, x3, alpha=5).add_(x1, alpha=4),
    ]


def _transform_inputs_backward(grads: list[Tensor]) -> Tensor:
    """Gradient of x, B x 4(n + 1) x C, from those of the six transforms, which it overwrites."""
    g0, g1, g2, g3, g4, g5 = grads
    batch, tiles, channels = g0.shape
    even, odd = g1 + g2, g1.sub_(g2)
    wide_even, wide_odd = g3 + g4, g3.sub_(g4)
    x = g0.new_empty(batch, tiles + 1, TILE, channels)
    x0, x1, x2, x3 = x[:, :-1].unbind(2)
    x0[:] = g0
    torch.sub(4 * g5, wide_odd, alpha=1 / 12, out=x1).add_(odd, alpha=2 / 3)
    torch.mul(g0, -5 / 4, out=x2).add_(even, alpha=2 / 3).sub_(wide_even, alpha=1 / 24)
    torch.mul(g5, -5, out=x3).add_(wide_odd, alpha=1 / 12).sub_(odd, alpha=1 / 6)
    x[:, -1] = 0.0
    x[:, 1:, 0].add_(g0, alpha=1 / 4).sub_(even, alpha=1 / 6).add_(wide_even, alpha=1 / 24)
    x[:, 1:, 1] += g5
    return x.view(batch, -1, channels)


def _transform_weight(weight: Tensor) -> list[Tensor]:
    """Six transformed weights C' x C of a weight C' x 3C."""
    w0, w1, w2 = weight.chunk(3, dim=1)
    outer, wide = w0 + w2, torch.add(w0, w2, alpha=4)
    return [
        w0.contiguous(),
        outer + w1,
        outer.sub_(w1),
        torch.add(wide, w1, alpha=2),
        wide.sub_(w1, alpha=2),
        w2.contiguous(),
    ]


def _weight_backward(grads: list[Tensor], inputs: list[Tensor]) -> Tensor:
    """Gradient of the weight C' x 3C, from those of the products and the transformed inputs."""
    grads, inputs = ([x.flatten(0, 1) for x in factors] for factors in (grads, inputs))
    out_channels, channels = grads[0].size(1), inputs[0].size(1)
    weight_grad = inputs[0].new_empty(out_channels, 3 * channels)
    w0, w1, w2 = weight_grad.chunk(3, dim=1)
    # Two buffers are used three times: allocating fresh memory takes as long as the sums.
    first, second = inputs[0].new_empty(2, out_channels, channels)

    def multiply(i: int, j: int) -> None:
        torch.mm(grads[i].t(), inputs[i], out=first)
        torch.mm(grads[j].t(), inputs[j], out=second)

    multiply(1, 2)
    torch.sub(first, second, out=w1)
    torch.add(first, second, out=w0)
    w2[:] = w0
    multiply(3, 4)
    w1.add_(first, alpha=2).sub_(second, alpha=2)
    first += second
    w0 += first
    w2.add_(first, alpha=4)
    multiply(0, 5)
    w0 += first
    w2 += second
    return weight_grad


def _transform_products(products: list[Tensor]) -> Tensor:
    """Outputs B x 4n x C' from six products B x n x C', which it overwrites."""
    p0, p1, p2, p3, p4, p5 = products
    batch, tiles, channels = p0.shape
    y = p0.new_empty(batch, tiles, TILE, channels)
    y0, y1, y2, y3 = y.unbind(2)
    even, odd = p1 + p2, p1.sub_(p2)
    wide_even, wide_odd = p3 + p4, p3.sub_(p4)
    torch.add(p0, even, out=y0).add_(wide_even)
    torch.add(odd, wide_odd, alpha=2, out=y1)
    torch.add(even, wide_even, alpha=4, out=y2)
    torch.add(p5, odd, out=y3).add_(wide_odd, alpha=8)
    return y.view(batch, -1, channels)


def _transform_products_backward(grad: Tensor) -> list[Tensor]:
    """Gradients of the six products, B x n x C', from that of the outputs, B x 4n x C'."""
    y0, y1, y2, y3 = grad.view(len(grad), -1, TILE, grad.size(-1)).unbind(2)
    even, odd = y0 + y2, y1 + y3
    wide_even, wide_odd = torch.add(y0, y2, alpha=4), torch.add(y1, y3, alpha=4).mul_(2)
    return [y0, even + odd, even.sub_(odd), wide_even + wide_odd, wide_even.sub_(wide_odd), y3]
