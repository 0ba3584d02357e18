"""Dropout with an explicit mask, with random numbers that are cheap on a CPU."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Random bits per element, and elements per 64-bit random integer.
BITS = 16
DRAWS_PER_INTEGER = 64 // BITS
# Elements that a CPU masks at a time. First, torch converts the mask to integers of the size of a
# number of x, and allocating fresh memory for a large mask takes longer than everything else.
CHUNK = 2**20
# Integers as large as a floating point number, by its bytes.
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Dropout(nn.Module):
    """Dropout in training, and also at inference if ``always`` is set.

    A backward pass that is written by hand calls ``sample_mask`` once and ``apply_mask`` in both
    directions; ``forward`` is the same with automatic differentiation.

    Args:
        p: probability of zeroing an element, from 0 to 1; on a CPU, and for explicit masks, it is
            rounded to a multiple of 2^-16.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.always = False

    @property
    def active(self) -> bool:
        """Whether a forward pass currently drops anything."""
        return (self.training or self.always) and self.p > 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Zero random elements of x, of any shape, and scale the others by 1 / (1 - p)."""
        if not self.active:
            return x
        # torch.compile cannot view integers as others, and generates fast code for torch's dropout.
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return _MaskedDropout.apply(x, self.sample_mask(x), self)

    def sample_mask(self, x: Tensor) -> Tensor | None:
        """A random mask of x's shape, 0 for elements to drop; None if dropout is inactive.

        Torch's own dropout draws a random integer per element; a quarter of one is enough.

        Returns:
            16-bit integers: -1, all of whose bits are set, for elements to keep, and 0 for elements
            to drop.
        """
        if not self.active:
            return None
        if self.p == 1.0:
            return torch.zeros(x.shape, dtype=torch.int16, device=x.device)
        if torch.compiler.is_compiling():
            return torch.rand(x.shape, device=x.device).ge(self.p).to(torch.int16).neg()
        size = -(-x.numel() // DRAWS_PER_INTEGER)
        draws = torch.empty(size, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        return bits.ge_(_dropped_draws(self.p) - 2 ** (BITS - 1)).neg_()

    def apply_mask(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Zero the masked elements of x, or of its gradient, and scale the others by 1 / (1 - p).

        This method itself is not differentiated.

        Args:
            x: of any shape.
            mask: as ``sample_mask`` returns it; None to return x unchanged.
        """
        if mask is None:
            return x
        scale = 2**BITS / (2**BITS - _dropped_draws(self.p))
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return (x * mask).mul_(-scale)
        if x.numel() <= CHUNK:
            return _select(x, mask).mul_(scale)
        out = torch.empty(x.shape, dtype=x.dtype)
        chunks = (tensor.reshape(-1).split(CHUNK) for tensor in (x, mask, out))
        for x_chunk, mask_chunk, out_chunk in zip(*chunks):
            torch.mul(_select(x_chunk, mask_chunk), scale, out=out_chunk)
        return out

    def extra_repr(self) -> str:
        return f"{self.p}, always={self.always}"


def _dropped_draws(p: float) -> int:
    """The number of the 2^BITS equally likely draws that drop an element."""
    return min(round(p * 2**BITS), 2**BITS - 1)


def _select(x: Tensor, mask: Tensor) -> Tensor:
    """x where the mask is -1, and 0 where it is 0, in less time than a product takes."""
    return (x.view(INTEGERS[x.element_size()]) & mask).view(x.dtype)


class _MaskedDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, dropout: Dropout) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.dropout = dropout
        return dropout.apply_mask(x, mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _MaskedDropout.apply(grad, *ctx.saved_tensors, ctx.dropout), None, None
