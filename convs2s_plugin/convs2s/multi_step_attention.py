"""The attention of a ConvS2S decoder layer (Gehring et al. 2017, section 3.3)."""

import math

from torch import Tensor, nn

from ..decoding.state import State, child
from ..nn.attention import attend
from ..nn.weight_norm import WeightNormLinear


def source_attention(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    padding_mask: Tensor | None,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """One head's attention of hypotheses to the sentences that they share.

    Args:
        query: R x T x E, where R is a multiple of B: the rows of a beam follow each other and
            share the keys and values of their sentence.
        keys: B x S x E.
        values: B x S x E.
        padding_mask: B x S, True at padding, or None.
        need_weights: whether to return the weights (False).
    Returns:
        The context R x T x E and the weights R x T x S (None if they are not needed).
    """
    rows, steps, _ = query.shape
    mask = None if padding_mask is None else ~padding_mask[:, None]
    query = query.reshape(len(keys), -1, query.size(-1))
    context, weights = attend(query, keys, values, mask, need_weights=need_weights)
    if weights is not None:
        weights = weights.reshape(rows, steps, -1)
    return context.reshape(rows, steps, -1), weights


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
        padding_mask: Tensor | None,
        lengths: Tensor,
        state: State | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Add the attention context to x.

        Args:
            x: R x T x C, the output of the layer's convolution.
            target_embedding: R x T x E.
            keys: B x S x E.
            values: B x S x E.
            padding_mask: B x S, True at padding, or None.
            lengths: B, the true lengths of the sources in words.
            state: where generation keeps folded weights; None in a full pass.
            need_weights: whether to return the attention weights (False).
        Returns:
            R x T x C and the attention weights R x T x S (None if they are not needed).
        """
        half = math.sqrt(0.5)
        query = (self.query(x, child(state, "query")) + target_embedding).mul_(half)
        context, weights = source_attention(query, keys, values, padding_mask, need_weights)
        scale = lengths.to(context.dtype).sqrt().view(-1, 1, 1)
        context = (context.view(len(keys), -1, context.size(-1)) * scale).view_as(context)
        return (self.output(context, child(state, "output")) + x).mul_(half), weights
