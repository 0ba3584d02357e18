"""Dropout that can be kept at inference, and whose random numbers are cheap on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Random bits for one number, and how many of them one draw gives.
BITS = 16
AT_A_TIME = 64 // BITS
# Numbers that a CPU drops at a time: torch widens the integers first, and fresh memory for more
# of them takes longer than all else.
PIECE = 2**20


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


def draw_kept(x: Tensor, p: float) -> Tensor:
    """Which numbers of x dropout keeps: integers of 16 bits, 1 for those and 0 for the others."""
    draws = torch.empty(-(-x.numel() // AT_A_TIME), dtype=torch.int64, device=x.device)
    bits = draws.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
    return bits.ge_(_dropped(p) - 2 ** (BITS - 1))


def drop(x: Tensor, kept: Tensor, p: float) -> Tensor:
    """x where it was kept, scaled so that its mean stays, and zero elsewhere."""
    scale = 2**BITS / (2**BITS - _dropped(p))
    if x.numel() <= PIECE or x.device.type != "cpu":
        return (x * kept).mul_(scale)
    out = torch.empty(x.shape, dtype=x.dtype)
    pieces = (tensor.reshape(-1).split(PIECE) for tensor in (x, kept, out))
    for part, kept_part, dropped in zip(*pieces):
        torch.mul(part, kept_part, out=dropped).mul_(scale)
    return out


def _dropped(p: float) -> int:
    """How many of the 2^BITS draws drop a number."""
    return min(round(p * 2**BITS), 2**BITS - 1)


class _CheapDropout(torch.autograd.Function):
    """torch draws one random number for each number of x; a quarter of that is enough."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float) -> Tensor:
        kept, ctx.p = draw_kept(x, p), p
        ctx.save_for_backward(kept)
        return drop(x, kept, p)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return drop(gradient, *ctx.saved_tensors, ctx.p), None
