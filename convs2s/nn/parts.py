"""The sum of several functions, with the graph of only one of them in memory at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .gradient import first_derivatives_only, take

# Computes a loss, a tensor without dimensions, from tensors in place of the inputs.
Part = Callable[[Sequence[Tensor]], Tensor]


def sum_of_parts(
    parts: Sequence[Part], inputs: Sequence[Tensor], parameters: Sequence[Tensor]
) -> Tensor:
    """The sum of functions; the gradient of each is computed right after its value.

    The backward pass only scales the gradients, so nothing is computed twice.

    Args:
        parts: at least one function. It gets tensors equal to ``inputs``, through which gradients
            flow, and may use ``parameters`` directly.
        inputs: tensors, whose graph stays in memory.
        parameters: leaves of the graph.
    Returns:
        A tensor without dimensions.
    """
    tensors = *inputs, *parameters
    need_grad = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    return _SumOfParts.apply(parts, len(inputs), need_grad, *tensors)


class _SumOfParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, parts: Sequence[Part], num_inputs: int, need_grad: bool, *tensors: Tensor
    ) -> Tensor:
        inputs = [x.detach().requires_grad_(x.requires_grad) for x in tensors[:num_inputs]]
        if not need_grad:
            return torch.stack([part(inputs) for part in parts]).sum()
        leaves = [*inputs, *tensors[num_inputs:]]
        places = [i for i, leaf in enumerate(leaves) if leaf.requires_grad]
        gradients: list[Tensor | None] = [None] * len(leaves)
        values = []
        for part in parts:
            with torch.enable_grad():
                value = part(inputs)
            values.append(value.detach())
            # Like a backward pass outside autocast: each operation already has its dtype.
            with torch.autocast(value.device.type, enabled=False):
                found = torch.autograd.grad(value, [leaves[i] for i in places], allow_unused=True)
            for i, gradient in zip(places, found):
                if gradient is None:
                    continue
                earlier = gradients[i]
                # Not in place: two leaves may share the memory of their gradients.
                gradients[i] = gradient if earlier is None else earlier + gradient
        ctx.gradients = gradients
        return torch.stack(values).sum()

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = take(ctx, "gradients")
        scaled = [None if x is None else x * grad.to(x.dtype) for x in gradients]
        return (None, None, None, *scaled)
