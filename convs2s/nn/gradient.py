"""Gradients that are scaled or ignored, and backward passes that cannot run twice.

A backward pass of this library cannot be differentiated either.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., tuple[Tensor | None, ...]]


def first_derivatives_only(backward: Backward) -> Backward:
    """Make a backward pass refuse ``create_graph=True``, with which it would be differentiated.

    torch's ``once_differentiable`` refuses only if the gradient of the output depends on the inputs
    as well; otherwise, second derivatives would silently lack a part.

    Args:
        backward: the method of a ``torch.autograd.Function``.
    """

    @wraps(backward)
    def first_time(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            name = backward.__qualname__.split(".")[0].lstrip("_")
            raise RuntimeError(
                f"{name} has only first derivatives, but create_graph=True asks for a graph of "
                "its backward pass, to compute second derivatives."
            )
        return backward(ctx, *grads)

    return first_time


def take(ctx: Any, attribute: str) -> Any:
    """Take what a forward pass left for the backward pass, which overwrites it.

    Args:
        ctx: the context of a ``torch.autograd.Function``.
        attribute: its name there.
    Raises:
        RuntimeError: if the backward pass has already run.
    """
    found = getattr(ctx, attribute)
    if found is None:
        raise RuntimeError(
            f"{type(ctx).__name__.strip('_')} has already run: this backward pass can run only "
            "once."
        )
    setattr(ctx, attribute, None)
    return found


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    # A scaled gradient is not the derivative of anything, so differentiating it again would give
    # wrong numbers.
    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.scale, None


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """Return x; multiply its gradient by ``scale`` in the backward pass."""
    return _ScaleGradient.apply(x, scale)


_ignored = False


@contextmanager
def ignored_batch(ignored: bool) -> Iterator[None]:
    """Exclude the batch from statistics that workers share while the body runs.

    A worker that has no batch left in an epoch repeats its first one, so that all workers take part
    in the same collective operations; fairseq multiplies the loss of this batch by zero.

    Args:
        ignored: whether it is such a batch; if not, nothing changes.
    """
    global _ignored
    before, _ignored = _ignored, ignored
    try:
        yield
    finally:
        _ignored = before


def is_ignored() -> bool:
    """Whether the current batch is excluded."""
    return _ignored
