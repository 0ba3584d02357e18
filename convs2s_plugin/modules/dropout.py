"""Dropout that can be kept at inference, and whose random numbers are cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Random bits for one number, and how many of them one draw gives.
BITS = 16
AT_A_TIME = 64 // BITS


class Dropout(nn.Module):
    """Dropout in training, and at inference where ``always`` has been set.

    Args:
        p: probability of dropping a number.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.always = False

    @property
    def active(self) -> bool:
        """Whether anything is dropped now."""
        return (self.training or self.always) and self.p > 0.0

    def forward(self, x: Tensor) -> Tensor:
        """x with some numbers zero and the others scaled by 1 / (1 - p)."""
        return dropout(x, self.p) if self.active else x

    def extra_repr(self) -> str:
        return f"{self.p}, always={self.always}"


def dropout(x: Tensor, p: float) -> Tensor:
    """x with each number zero with probability p, and the others scaled by 1 / (1 - p).

    Args:
        x: of any shape.
        p: from 0 to 1; on a CPU, rounded to a multiple of 2^-16.
    """
    if x.device.type != "cpu" or p == 1.0:
        return F.dropout(x, p)
    return _CheapDropout.apply(x, p)


class _CheapDropout(torch.autograd.Function):
    """torch draws one random number for each number of x; a quarter of that is enough."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        draws = torch.empty(-(-x.numel() // AT_A_TIME), dtype=torch.int64)
        bits = draws.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        dropped = min(round(p * 2**BITS), 2**BITS - 1)
        kept = bits.ge_(dropped - 2 ** (BITS - 1))
        ctx.scale = 2**BITS / (2**BITS - dropped)
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None
