"""Attention of target positions to source positions."""

import torch
from torch import Tensor
from torch.nn import functional as F

# Positions up to which a CPU takes less time for plain products than for the fused kernels.
SHORT = 32


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """Softmax of scaled dot products, in single precision or better, never over padding.

    Args:
        query: B x h x T x E, for h heads.
        keys: B x h x S x E.
        values: B x h x S x E'.
        mask: what broadcasts to B x h x T x S, True where a position may be seen; None for all.
        scale: what dot products are multiplied by (1).
        causal: position t sees 1 to t only; T and S must be the same, and mask None (False).
        dropout: probability of dropping a weight (0).
        need_weights: whether weights are wanted; without them torch's fused kernels do the work,
            but for short sentences.
    Returns:
        The context B x h x T x E' and the weights B x h x T x S, or None.
    """
    if not need_weights and not _short(query, keys):
        context = F.scaled_dot_product_attention(
            query, keys, values, mask, dropout, is_causal=causal, scale=scale
        )
        return context, None
    scores = query @ keys.transpose(-1, -2)
    if causal:
        mask = causal_mask(scores)
    weights = softmax(scores, mask, scale)
    dropped = F.dropout(weights, dropout) if dropout else weights
    return dropped.to(values.dtype) @ values, weights if need_weights else None


def _short(query: Tensor, keys: Tensor) -> bool:
    return (
        query.device.type == "cpu"
        and query.dtype in (torch.float32, torch.float64)
        and query.size(-2) * keys.size(-2) <= SHORT**2
    )


def softmax(scores: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """Weights ... x S of scores ... x S, in single precision or better.

    Args:
        scores: in any precision.
        mask: what broadcasts to ``scores``, True where a position may be seen; None for all.
        scale: what scores are multiplied by (1).
    """
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if scale != 1.0:
        scores = scores * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1)


def causal_mask(scores: Tensor) -> Tensor:
    """T x T, True where the column is not to the right of the row, for scores ... x T x T."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()


def source_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    padding_mask: Tensor | None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """One head's dot-product attention of hypotheses to the source sentences that they share.

    Args:
        query: R x T x E. R is a multiple of B: consecutive hypotheses share a sentence.
        keys: B x S x E.
        values: B x S x E.
        padding_mask: B x S, True at padding, or None if there is no padding.
        need_weights: whether to return the attention weights (False).
    Returns:
        The context R x T x E, and the weights R x T x S (None if they are not needed).
    """
    rows, steps, embed_dim = query.shape
    mask = None if padding_mask is None else ~padding_mask[:, None]
    # All hypotheses of a sentence become queries of one matrix multiplication.
    query = query.reshape(len(keys), -1, embed_dim)
    context, weights = attend(query, keys, values, mask, need_weights=need_weights)
    if weights is not None:
        weights = weights.reshape(rows, steps, -1)
    return context.reshape(rows, steps, -1), weights
