"""Attention to the source and to the sentence itself (Domhan 2018, section 2.3).

In all classes the same happens: queries, keys and values are made, heads attend, heads are joined.
Keys and values of the source are made once a sentence, and its hypotheses share them; those of the
sentence itself are kept for later steps.
"""

import math

import torch
from torch import Tensor, nn

from ...decoding.state import State
from ...nn.attention import attend, causal_mask, softmax
from ...nn.autocast import to_autocast_dtype
from ...nn.dropout import Dropout
from ..context import Context
from ..language.spec import LayerSpec
from .pointwise import linear


class _Attention(nn.Module):
    """What all kinds have; ``queries`` and ``attended`` are for each to say.

    Args:
        layer: the resolved layer.
        heads: h.
        scale: what dot products are multiplied by.
    """

    def __init__(self, layer: LayerSpec, heads: int = 1, scale: float = 1.0):
        super().__init__()
        self.heads, self.scale = heads, scale
        self.block = layer.arguments.get("block")
        self.causal = layer.in_decoder
        self.dropout = Dropout(layer["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """R x T x C to R x T x C'."""
        x = to_autocast_dtype(x)
        return self.from_itself(x, context) if self.block is None else self.from_source(x, context)

    def from_source(self, x: Tensor, context: Context) -> Tensor:
        """Attend to the source; the weights, averaged over heads, are left in the context."""
        rows, steps, _ = x.shape
        keys, values = self.source_keys(context)
        query = self.queries(x)
        # The hypotheses of a sentence stand in one row, one after the other.
        query = self.split(query.reshape(len(keys), -1, query.size(-1)))
        padding = context.source.padding_mask
        mask = None if padding is None else ~padding[:, None, None]
        attended, weights = self.attend(
            query, keys, values, mask=mask, need_weights=context.need_weights
        )
        if weights is not None:
            context.attention.append(weights.mean(dim=1).reshape(rows, steps, -1))
        return self.join(attended).view(rows, steps, -1)

    def source_keys(self, context: Context) -> tuple[Tensor, Tensor]:
        """Keys and values of the source by heads, B x h x S x E, made once a sentence."""
        memory = context.layer_state(self)
        if memory is not None and "keys" in memory.sentences:
            return memory.sentences["keys"], memory.sentences["values"]
        source = to_autocast_dtype(context.source.blocks[self.block])
        keys, values = map(self.split, self.attended(source))
        if memory is not None:
            keys, values = keys.contiguous(), values.contiguous()
            memory.sentences.update(keys=keys, values=values)
        return keys, values

    def from_itself(self, x: Tensor, context: Context) -> Tensor:
        """Attend to the sentence; in a decoder, to what is not to the right."""
        query, keys, values = self.projected(x)
        memory = context.layer_state(self)
        if memory is not None:
            return self.attend_to_cache(query, keys, values, context, memory)
        padding = context.padding_mask
        mask = None if padding is None else ~padding[:, None, None]
        query, keys, values = map(self.split, (query, keys, values))
        attended, _ = self.attend(query, keys, values, mask=mask, causal=self.causal)
        return self.join(attended)

    def attend_to_cache(
        self, query: Tensor, keys: Tensor, values: Tensor, context: Context, state: State
    ) -> Tensor:
        """Append keys and values to the key-value cache and attend to the past.

        Args:
            query, keys, values: R x n x hE, of n new positions.
            context: of the forward pass.
            state: the incremental state of this layer.
        Returns:
            R x n x hE.
        """
        rows, steps, _ = query.shape
        beam_size = context.state.backpointers.beam_size
        # Queries of a sentence are ordered by hypothesis, cache columns by position.
        query = self.split(query.reshape(rows // beam_size, beam_size * steps, -1))
        keys, values = (
            self.split(new.unflatten(0, (-1, beam_size)).transpose(1, 2).flatten(1, 2))
            for new in (keys, values)
        )
        keys, values = state.kv_cache().append(keys, values)
        # For so few queries, separate matrix multiplications are faster than fused kernels.
        attended, _ = self.attend(query, keys, values, mask=context.visible, need_weights=True)
        return self.join(attended).view(rows, steps, -1)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the sentence itself."""
        return (self.queries(x), *self.attended(x))

    def attend(self, query, keys, values, mask=None, causal=False, need_weights=False):
        """Context and weights of dot attention (see modules/attention.py)."""
        p = self.dropout.p if self.dropout.active else 0.0
        return attend(query, keys, values, mask, self.scale, causal, p, need_weights)

    def split(self, x: Tensor) -> Tensor:
        """B x T x hE to B x h x T x E."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def join(self, x: Tensor) -> Tensor:
        """B x h x T x E to B x T x hE."""
        return x.transpose(1, 2).flatten(2)


class DotAttention(_Attention):
    """``dot_att``: the input against the source, both as they are."""

    def __init__(self, layer: LayerSpec):
        super().__init__(layer, scale=layer["s"] ** -0.5)

    def queries(self, x: Tensor) -> Tensor:
        """x."""
        return x

    def attended(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The source as keys and as values."""
        return source, source


class ProjectedAttention(_Attention):
    """``proj_dot_src_att``, ``proj_dot_self_att``: dot attention after linear maps."""

    def __init__(self, layer: LayerSpec, heads: int = 1):
        super().__init__(layer, heads, layer["s"] ** -0.5)
        inner = layer["d_p"]
        if layer.source_width is None:
            self.queries_keys_values = linear(layer.input_width, 3 * inner, bias=False, parts=3)
        else:
            self.queries = linear(layer.input_width, inner, bias=False)
            self.keys_values = linear(layer.source_width, 2 * inner, bias=False, parts=2)

    def attended(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the source."""
        return self.keys_values(source).chunk(2, dim=-1)

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the sentence, in one matrix product."""
        return self.queries_keys_values(x).chunk(3, dim=-1)


class MultiHeadAttention(ProjectedAttention):
    """``mh_dot_src_att``, ``mh_dot_self_att``: several heads, and a linear map of them all."""

    def __init__(self, layer: LayerSpec):
        super().__init__(layer, layer["h"])
        self.output = linear(layer["d_p"], layer.width, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """R x T x C to R x T x C'."""
        return self.output(super().forward(x, context))


class MlpAttention(_Attention):
    """``mlp_src_att``, ``mlp_self_att``: scores w tanh(W_q q + W_k k), values as they are."""

    def __init__(self, layer: LayerSpec):
        super().__init__(layer)
        attended = layer.input_width if layer.source_width is None else layer.source_width
        self.queries = linear(layer.input_width, layer["d_p"], bias=False)
        self.keys = linear(attended, layer["d_p"], bias=False)
        self.weight = nn.Parameter(torch.empty(layer["d_p"]))
        bound = math.sqrt(6 / (layer["d_p"] + 1))
        nn.init.uniform_(self.weight, -bound, bound)

    def attended(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Projected keys, and the source as values."""
        return self.keys(source), source

    def attend(self, query, keys, values, mask=None, causal=False, need_weights=False):
        """Context and weights; arguments as in modules/attention.py."""
        hidden = (query.unsqueeze(3) + keys.unsqueeze(2)).tanh()
        scores = hidden @ self.weight.to(hidden.dtype)
        if causal:
            mask = causal_mask(scores)
        weights = softmax(scores, mask)
        context = self.dropout(weights).to(values.dtype) @ values
        return context, weights if need_weights else None
