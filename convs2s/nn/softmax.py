"""Softmax of attention scores, with or without a mask, for rows that may be short."""

import torch
from torch import Tensor
from torch.nn import functional as F

# On a CPU, torch computes a softmax of fewer numbers than a vector register holds one number at a
# time: 12 numbers take ten times as long as 16.
LANES = 16
# From this many rows on, padding them takes less time than what it saves.
MIN_ROWS = 64


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension.

    Args:
        scores: ... x S.
    """
    size = scores.size(-1)
    in_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()
    if in_graph or scores.device.type != "cpu" or not 1 < size < LANES:
        return scores.softmax(dim=-1)
    if scores.numel() < MIN_ROWS * size:
        return scores.softmax(dim=-1)
    return F.pad(scores, (0, LANES - size), value=float("-inf")).softmax(dim=-1)[..., :size]


def masked_softmax(scores: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """Attention weights ... x S from attention scores ... x S, in single precision or better.

    Args:
        scores: in any precision.
        mask: broadcastable to ``scores``, True at positions that may be attended to; or numbers to
            add to the scaled scores; None for all.
        scale: factor of the scores (1).
    """
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if scale != 1.0:
        scores = scores * scale
    if mask is not None:
        if mask.dtype == torch.bool:
            # A sum takes a tenth of the time of filling positions of all heads.
            mask = scores.new_zeros(mask.shape).masked_fill_(~mask, float("-inf"))
        scores = scores + mask
    return softmax(scores)


def causal_mask(scores: Tensor) -> Tensor:
    """Mask T x T for scores ... x T x T, True on and below the diagonal."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
