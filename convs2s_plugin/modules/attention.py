"""Attention of target positions to source positions."""

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from .state import State, child
from .weight_norm import WeightNormLinear


def dot_attention(
    query: Tensor, keys: Tensor, values: Tensor, padding_mask: Optional[Tensor]
) -> Tuple[Tensor, Tensor]:
    """Softmax of dot products, in single precision or better, never over padding.

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
    sentences = len(keys)
    scores = query.reshape(sentences, -1, query.size(-1)) @ keys.transpose(1, 2)
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    if padding_mask is not None:
        scores = scores.masked_fill(padding_mask.unsqueeze(1), float("-inf"))
    weights = scores.softmax(dim=-1)
    context = weights.to(values.dtype) @ values
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
        query = (self.query(x, child(state, "query")) + target_embedding) * half
        context, weights = dot_attention(query, keys, values, padding_mask)
        scale = lengths.to(context.dtype).sqrt().view(-1, 1, 1)
        context = (context.view(len(keys), -1, context.size(-1)) * scale).view_as(context)
        return (self.output(context, child(state, "output")) + x) * half, weights
