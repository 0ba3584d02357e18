"""Attention of target positions to source positions."""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .state import State, child
from .weight_norm import WeightNormLinear

# Positions up to which a CPU takes less time for plain products than for the fused kernels.
SHORT = 32


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Optional[Tensor] = None,
    scale: float = 1.0,
    causal: bool = False,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> Tuple[Tensor, Optional[Tensor]]:
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


def softmax(scores: Tensor, mask: Optional[Tensor] = None, scale: float = 1.0) -> Tensor:
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
    query: Tensor, keys: Tensor, values: Tensor, padding_mask: Optional[Tensor]
) -> Tuple[Tensor, Tensor]:
    """One head's attention of hypotheses to the sentences that they share.

    Args:
        query: R x T x E, where R is a multiple of B: the rows of a beam follow each other and
            share the keys and values of their sentence.
        keys: B x S x E.
        values: B x S x E.
        padding_mask: B x S, True at padding, or None.
    Returns:
        The context R x T x E and the weights R x T x S.
    """
    rows, steps, _ = query.shape
    mask = None if padding_mask is None else ~padding_mask[:, None]
    context, weights = attend(query.reshape(len(keys), -1, query.size(-1)), keys, values, mask)
    return context.reshape(rows, steps, -1), weights.reshape(rows, steps, -1)


class MultiStepAttention(nn.Module):
    """The attention of one decoder layer (ConvS2S, section 3.3).

    The query is the projected state plus the embedding of the previous target word; keys are
    the encoder's output and values its output plus the source embedding, the same for all
    layers. The context is multiplied by m sqrt(1/m), m the true length of the source
    (section 3.4), and sums of two terms by sqrt(0.5).

    Args:
        channels: C of the decoder layer.
        embed_dim: E of the target embedding and of the encoder's output.
    """

    def __init__(self, channels: int, embed_dim: int):
        super().__init__()
        self.query = WeightNormLinear(channels, embed_dim)
        self.output = WeightNormLinear(embed_dim, channels)

    def forward(
        self,
        x: Tensor,
        target_embedding: Tensor,
        keys: Tensor,
        values: Tensor,
        padding_mask: Optional[Tensor],
        lengths: Tensor,
        state: Optional[State] = None,
    ) -> Tuple[Tensor, Tensor]:
        """Add what the source has to say to x.

        Args:
            x: R x T x C, the output of the layer's convolution.
            target_embedding: R x T x E.
            keys: B x S x E.
            values: B x S x E.
            padding_mask: B x S, True at padding, or None.
            lengths: B, the true lengths of the sources in words.
            state: where generation keeps folded weights; None in a full pass.
        Returns:
            R x T x C and the attention's weights R x T x S.
        """
        half = math.sqrt(0.5)
        query = (self.query(x, child(state, "query")) + target_embedding).mul_(half)
        context, weights = source_attention(query, keys, values, padding_mask)
        scale = lengths.to(context.dtype).sqrt().view(-1, 1, 1)
        context = (context.view(len(keys), -1, context.size(-1)) * scale).view_as(context)
        return (self.output(context, child(state, "output")) + x).mul_(half), weights
