"""Normalization by the root mean square (Zhang and Sennrich 2019)."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .gradient import first_derivatives_only


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """w x / sqrt(mean of the squares of its channels + epsilon), in single precision or better.

    On a CPU, ``F.rms_norm`` and its gradient take four times as long.

    Args:
        x: ... x C.
        weight: C.
        epsilon: added to the mean.
    """
    exact = torch.promote_types(x.dtype, torch.float32)
    # Autocast would round the squares to half precision.
    with torch.autocast(x.device.type, enabled=False):
        x, weight = x.to(exact), weight.to(exact)
        if torch.is_grad_enabled() and x.device.type == "cpu":
            return _RmsNorm.apply(x.contiguous(), weight, epsilon)
        return F.rms_norm(x, weight.shape, weight, epsilon)


class RmsNorm(nn.Module):
    """``rms_norm`` with learned weights.

    Args:
        channels: C.
        epsilon: added to the mean.
    """

    def __init__(self, channels: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x, ... x C; the result has the precision of the weights."""
        return rms_norm(x, self.weight, self.epsilon).to(self.weight.dtype)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        squares = (x.unsqueeze(-2) @ x.unsqueeze(-1)).squeeze(-1)
        inverse = (squares / x.size(-1)).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).mul_(weight)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, inverse = ctx.saved_tensors
        grad = grad.contiguous()
        products = grad * x
        of_weight = inverse.flatten() @ products.flatten(0, -2)
        share = (products @ weight).unsqueeze(-1).mul_(inverse**3).div_(-x.size(-1))
        of_x = torch.mul(grad, weight, out=products).mul_(inverse).addcmul_(x, share)
        return of_x, of_weight, None
