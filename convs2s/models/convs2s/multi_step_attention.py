"""The attention of a ConvS2S decoder layer (Gehring et al. 2017, section 3.3)."""

import math
from typing import NamedTuple

from torch import Tensor, nn

from ...nn.attention import source_attention
from ...nn.linear import WeightNormLinear


class EncoderOutput(NamedTuple):
    """The encoder output that decoder layers attend to.

    Attributes:
        keys: B x S x E.
        values: B x S x E, multiplied by the square root of the number of tokens of the sentence.
        padding_mask: B x S, True at padding, or None if there is no padding.
    """

    keys: Tensor
    values: Tensor
    padding_mask: Tensor | None


class MultiStepAttention(nn.Module):
    """The attention of one decoder layer.

    The query is the projected output of the convolution plus the embedding of the previous target
    token. Keys are the encoder output, and values the encoder output plus the source embedding; the
    values are multiplied by m sqrt(1/m) for m source tokens. Both are the same for all layers. Each
    sum of two terms is multiplied by sqrt(0.5) (section 3.4).

    Args:
        channels: C, of the decoder layer.
        embed_dim: E, of the target embedding and of the encoder output.
    """

    def __init__(self, channels: int, embed_dim: int):
        super().__init__()
        self.query = WeightNormLinear(channels, embed_dim)
        self.output = WeightNormLinear(embed_dim, channels)

    def forward(
        self,
        x: Tensor,
        target_embedding: Tensor,
        source: EncoderOutput,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Add the attention context to x.

        Args:
            x: R x T x C, the output of the layer's convolution. R is a multiple of B: consecutive
                hypotheses share a sentence.
            target_embedding: R x T x E.
            source: the encoder output of B sentences.
            need_weights: whether to return attention weights (False).
        Returns:
            R x T x C, and the attention weights R x T x S (None if they are not needed).
        """
        sqrt_half = math.sqrt(0.5)
        query = (self.query(x) + target_embedding).mul_(sqrt_half)
        context, weights = source_attention(
            query, source.keys, source.values, source.padding_mask, need_weights
        )
        return (self.output(context) + x).mul_(sqrt_half), weights
