"""Multi-head attention (Domhan 2018, section 2.3), with arguments beyond the paper.

It projects queries, keys and values, attends with each head, and projects the concatenated heads
once more, as in the original implementation; the paper's formula has no last projection.

Several heads of queries may share one head of keys and values (Ainslie et al. 2023). Queries and
keys may be divided by their root mean square, with learned scales (after Henry et al. 2020), and
rotated by their positions (Su et al. 2021). Self-attention may have a window, and biases by
distance.
"""

import torch
from torch import Tensor

from ....nn.normalization import RmsNorm
from ..context import Context
from ..language.layers.attention import ALIBI, ROPE
from ..language.spec import LayerSpec
from .attention import ProjectedAttentionLayer
from .common import EPSILON, implements, xavier_linear
from .relative_positions import AlibiBiases, DistanceMask, Rotation


def source_context(source: Tensor, context: Context) -> Context:
    """Positions of the source, B x S x C, which layers share."""
    length = source.size(1)
    return context.shared(
        "source positions", lambda: Context(torch.arange(length, device=source.device), length)
    )


class HeadNorm(RmsNorm):
    """Divides the channels of each head by their root mean square; all heads share the scales.

    As in Qwen 3 and Gemma 3; Henry et al. (2020) divide by the norm, with one scale.

    Args:
        channels: E of each head.
    """

    def __init__(self, channels: int):
        super().__init__(channels, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize queries or keys, R x T x hE."""
        heads = x.unflatten(-1, (-1, self.weight.size(0)))
        return super().forward(heads).to(x.dtype).flatten(-2)


@implements("mh_dot_src_att", "mh_dot_self_att")
class MultiHeadAttentionLayer(ProjectedAttentionLayer):
    """``mh_dot_src_att``, ``mh_dot_self_att``: several heads, and a linear map of all of them."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, spec["h"], spec["kv_heads"], spec["bias"])
        self.output = xavier_linear(spec["d_p"], spec.width, spec["bias"])
        size = spec["d_p"] // self.heads
        self.q_norm = HeadNorm(size) if spec["qk_norm"] else None
        self.k_norm = HeadNorm(size) if spec["qk_norm"] else None
        self.rotation = Rotation(size) if spec["pos"] == ROPE else None
        if self.block is None:
            biases = AlibiBiases(self.heads) if spec["pos"] == ALIBI else None
            if spec["window"] is not None or biases is not None:
                self.distances = DistanceMask(self.causal, spec["window"], biases)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map R x T x C to R x T x C'."""
        return self.output(super().forward(x, context))

    def q_proj(self, x: Tensor, context: Context) -> Tensor:
        """Queries, for attention to the source."""
        queries = super().q_proj(x, context)
        if self.q_norm is not None:
            queries = self.q_norm(queries)
        return queries if self.rotation is None else self.rotation(queries, context)

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Keys and values of the source."""
        keys, values = super().kv_proj(source, context)
        if self.k_norm is not None:
            keys = self.k_norm(keys)
        if self.rotation is not None:
            keys = self.rotation(keys, source_context(keys, context))
        return keys, values

    def qkv_proj(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values in one matrix multiplication, for self-attention."""
        query, keys, values = super().qkv_proj(x, context)
        if self.q_norm is not None and self.k_norm is not None:
            query, keys = self.q_norm(query), self.k_norm(keys)
        if self.rotation is not None:
            query, keys = self.rotation(query, context), self.rotation(keys, context)
        return query, keys, values
