"""The linear recurrence that gated recurrent layers share."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def linear_scan(decay: Tensor, update: Tensor, before: Tensor | None = None) -> Tensor:
    """h_t = decay_t h_(t-1) + update_t for each channel, in single precision or better.

    A loop over the positions, in place and with the positions in front: on a CPU, this takes a
    fraction of the time of a tree or of sums of logarithms. All matrix products are done
    beforehand.

    Args:
        decay: B x T x C.
        update: B x T x C.
        before: h_0, B x C; None for zeros.
    Returns:
        h_1 to h_T, B x T x C.
    """
    exact = torch.promote_types(update.dtype, torch.float32)
    a = decay.transpose(0, 1).to(exact)
    b = update.transpose(0, 1).to(exact)
    if before is not None:
        b = torch.cat([torch.addcmul(b[:1], a[:1], before.to(exact).unsqueeze(0)), b[1:]])
    if isinstance(b.size(0), torch.SymInt):

        def step(hidden: Tensor, decay: Tensor, update: Tensor) -> tuple[Tensor, Tensor]:
            hidden = decay * hidden + update
            return hidden, hidden

        return loop(step, torch.zeros_like(b[0]), a, b)[1]
    if b.size(0) > 1:
        b = _Scan.apply(a, b, False)
    return b.transpose(0, 1)


def loop(step: Callable[..., tuple[Any, Tensor]], before: Any, *inputs: Tensor) -> Any:
    """One step for each position, which also works in a graph for any number of positions.

    Args:
        step: a function of what the previous step left, and of the inputs at a position; returns
            what it leaves, and its output, B x C.
        before: what the first step finds: a tensor or several.
        inputs: T x B x C each.
    Returns:
        What the last step left, and the outputs B x T x C.
    """
    if isinstance(inputs[0].size(0), torch.SymInt):
        from torch._higher_order_ops.scan import scan

        def in_graph(before: Any, at_position: tuple[Tensor, ...]) -> tuple[Any, Tensor]:
            after, output = step(before, *at_position)
            # What a step leaves and what it outputs may not share memory.
            return after, output.clone()

        after, outputs = scan(in_graph, before, inputs)
        return after, outputs.transpose(0, 1)
    found = []
    for at_position in zip(*(each.unbind() for each in inputs)):
        before, output = step(before, *at_position)
        found.append(output)
    return before, torch.stack(found, dim=1)


class _Scan(torch.autograd.Function):
    """h_t = a_t h_(t-1) + b_t; or backwards, h_t = a_(t+1) h_(t+1) + b_t, which is its derivative.

    Each needs the other for its derivatives, of any order. The first a is not used.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, backwards: bool) -> Tensor:
        hidden = b.clone(memory_format=torch.contiguous_format)
        decays, states = a.unbind(), hidden.unbind()
        if backwards:
            for t in range(len(states) - 2, -1, -1):
                states[t].addcmul_(decays[t + 1], states[t + 1])
        else:
            for t in range(1, len(states)):
                states[t].addcmul_(decays[t], states[t - 1])
        ctx.save_for_backward(a, hidden)
        ctx.backwards = backwards
        return hidden

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, hidden = ctx.saved_tensors
        of_b = _Scan.apply(a, grad, not ctx.backwards)
        if not ctx.needs_input_grad[0]:
            return None, of_b, None
        first, second = (of_b[:-1], hidden[1:]) if ctx.backwards else (hidden[:-1], of_b[1:])
        return torch.cat([torch.zeros_like(a[:1]), first * second]), of_b, None
