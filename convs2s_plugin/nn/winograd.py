"""Convolution over three neighbours with half of its products (Lavin & Gray 2016, F(4, 3)).

Four successive outputs need twelve products of an input with a weight. Winograd's algorithm makes
six sums of their six inputs and six of the three weights, multiplies pair by pair, and makes the
outputs of the six products. Here inputs and weights are vectors and matrices, so that products
are matrix products and sums cost little beside them. The gradients are the same way back, with
six products each as well.
"""

import torch
from torch import Tensor

from .linear import is_eager_cpu, linear

TILE = 4
# Fewer channels, or fewer tiles in a batch, and the sums cost more than the products that they
# save; measured on two cores of an AMD EPYC with AVX-512.
CHANNELS, TILES = 128, 128


def should_use_winograd(x: Tensor, weight: Tensor) -> bool:
    """Whether ``winograd_conv1d`` is faster than unfolding and one matrix product."""
    batch, length, channels = x.shape
    tiles = -(-length // TILE)
    return (
        is_eager_cpu(x)
        and x.dtype == weight.dtype
        and x.dtype in (torch.float32, torch.float64)
        and channels >= CHANNELS
        and batch * tiles >= TILES
        # No more than a fifth of the outputs is thrown away.
        and 4 * TILE * tiles <= 5 * length
    )


def winograd_conv1d(x: Tensor, weight: Tensor, bias: Tensor, left: int) -> Tensor:
    """What three inputs side by side give, at each position; equal to their product but for
    rounding, which may also let a later input of the same tile touch an output's last bit.

    Args:
        x: B x T x C.
        weight: O x 3C, for the leftmost input first.
        bias: O.
        left: how many of the three are to the left of a position, from 0 to 2; zeros lie beyond
            the ends.
    Returns:
        B x T x O.
    """
    return _WinogradConv1d.apply(x, weight, bias, left)


class _WinogradConv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, left: int) -> Tensor:
        tiles = -(-x.size(1) // TILE)
        inputs = _of_inputs(_padded(x, left, TILE * (tiles + 1)))
        weights = _of_weights(weight)
        ctx.save_for_backward(*inputs, *weights)
        ctx.left = left
        # The second product is in all outputs, and so is the bias.
        biases = None, bias, None, None, None, None
        return _outputs([linear(*each) for each in zip(inputs, weights, biases)])[:, : x.size(1)]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Tensor):
        inputs, weights = ctx.saved_tensors[:6], ctx.saved_tensors[6:]
        length, tiles = grad.size(1), inputs[0].size(1)
        grads = _of_outputs(_padded(grad, 0, TILE * tiles))
        of_x = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_x = _inputs_backward([linear(g, w.t()) for g, w in zip(grads, weights)])
            of_x = of_x[:, ctx.left : ctx.left + length]
        if ctx.needs_input_grad[1]:
            of_weight = _weights_backward(grads, inputs)
        if ctx.needs_input_grad[2]:
            of_bias = grads[1].sum(dim=(0, 1))
        return of_x, of_weight, of_bias, None


def _padded(x: Tensor, left: int, length: int) -> Tensor:
    """x with zeros on both sides, ``length`` positions in all."""
    padded = x.new_empty(len(x), length, x.size(-1))
    padded[:, :left] = padded[:, left + x.size(1) :] = 0.0
    padded[:, left : left + x.size(1)] = x
    return padded


def _of_inputs(x: Tensor) -> list[Tensor]:
    """Six sums, each B x n x C, of B x 4(n + 1) x C: those of a tile and the next two."""
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


def _inputs_backward(grads: list[Tensor]) -> Tensor:
    """The gradient of B x 4(n + 1) x C from those of its six sums; uses them up."""
    of_0, of_1, of_2, of_3, of_4, of_5 = grads
    batch, tiles, channels = of_0.shape
    even, odd = of_1 + of_2, of_1.sub_(of_2)
    wide_even, wide_odd = of_3 + of_4, of_3.sub_(of_4)
    x = of_0.new_empty(batch, tiles + 1, TILE, channels)
    x0, x1, x2, x3 = x[:, :-1].unbind(2)
    x0[:] = of_0
    torch.sub(4 * of_5, wide_odd, alpha=1 / 12, out=x1).add_(odd, alpha=2 / 3)
    torch.mul(of_0, -5 / 4, out=x2).add_(even, alpha=2 / 3).sub_(wide_even, alpha=1 / 24)
    torch.mul(of_5, -5, out=x3).add_(wide_odd, alpha=1 / 12).sub_(odd, alpha=1 / 6)
    x[:, -1] = 0.0
    x[:, 1:, 0].add_(of_0, alpha=1 / 4).sub_(even, alpha=1 / 6).add_(wide_even, alpha=1 / 24)
    x[:, 1:, 1] += of_5
    return x.view(batch, -1, channels)


def _of_weights(weight: Tensor) -> list[Tensor]:
    """Six sums, each O x C, of O x 3C."""
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


def _weights_backward(grads: list[Tensor], inputs: list[Tensor]) -> Tensor:
    """The gradient of O x 3C, from those of the six products and the other factors of these."""
    grads, inputs = ([each.flatten(0, 1) for each in parts] for parts in (grads, inputs))
    outputs, channels = grads[0].size(1), inputs[0].size(1)
    weight = inputs[0].new_empty(outputs, 3 * channels)
    w0, w1, w2 = weight.chunk(3, dim=1)
    # Two matrices that are used again: fresh memory costs as much as the sums.
    plus, minus = inputs[0].new_empty(2, outputs, channels)

    def products(i: int, j: int) -> None:
        torch.mm(grads[i].t(), inputs[i], out=plus)
        torch.mm(grads[j].t(), inputs[j], out=minus)

    products(1, 2)
    torch.sub(plus, minus, out=w1)
    torch.add(plus, minus, out=w0)
    w2[:] = w0
    products(3, 4)
    w1.add_(plus, alpha=2).sub_(minus, alpha=2)
    plus += minus
    w0 += plus
    w2.add_(plus, alpha=4)
    products(0, 5)
    w0 += plus
    w2 += minus
    return weight


def _outputs(products: list[Tensor]) -> Tensor:
    """B x 4n x O of six products B x n x O; uses them up."""
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


def _of_outputs(y: Tensor) -> list[Tensor]:
    """The gradients of the six products, B x n x O, from that of B x 4n x O."""
    y0, y1, y2, y3 = y.view(len(y), -1, TILE, y.size(-1)).unbind(2)
    even, odd = y0 + y2, y1 + y3
    wide_even, wide_odd = torch.add(y0, y2, alpha=4), torch.add(y1, y3, alpha=4).mul_(2)
    return [y0, even + odd, even.sub_(odd), wide_even + wide_odd, wide_even.sub_(wide_odd), y3]
