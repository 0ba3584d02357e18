"""Attention layers (Domhan 2018, section 2.3): dot attention, multi-head attention, and MLP scores.

Keys and values of the source are computed once per sentence, and its hypotheses share them. Keys
and values of the sentence itself are cached for later steps.

Projections have no biases, as in the original implementation, unless a definition asks for them.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.attention import dot_product_attention, has_few_scores, recorded_maps
from ....nn.dropout import Dropout
from ....nn.linear import to_autocast_dtype
from ....nn.softmax import causal_mask, masked_softmax
from ....nn.state import State
from ..context import Context, LayerAttention
from ..language.layers.attention import attended_width, kv_width
from ..language.spec import LayerSpec
from .common import implements, xavier_linear
from .relative_positions import DistanceMask


class AttentionLayer(nn.Module):
    """Base class of attention layers; subclasses define ``q_proj`` and ``kv_proj``.

    A layer with the argument ``block`` attends to the source, any other to the sentence itself,
    in a decoder only to the past.

    Args:
        spec: the resolved layer.
        heads: h (1).
        scale: a factor for dot products (1).
        kv_heads: g, heads of keys and values; None for h.
    """

    # Relative positions of self-attention, if a subclass has any.
    distances: DistanceMask | None = None

    def __init__(
        self, spec: LayerSpec, heads: int = 1, scale: float = 1.0, kv_heads: int | None = None
    ):
        super().__init__()
        self.name, self.heads, self.scale = spec.name, heads, scale
        self.kv_heads = heads if kv_heads is None else kv_heads
        self.block = spec.arguments.get("block")
        self.causal = spec.in_decoder
        self.dropout = Dropout(spec["dropout"])

    def q_proj(self, x: Tensor, context: Context) -> Tensor:
        """Queries R x T x hE of x (R x T x C)."""
        raise NotImplementedError

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Keys B x S x gE and values B x S x gE' of a sequence B x S x C."""
        raise NotImplementedError

    def qkv_proj(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of x (R x T x C), for self-attention."""
        return (self.q_proj(x, context), *self.kv_proj(x, context))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map R x T x C to R x T x C'."""
        x = to_autocast_dtype(x)
        if self.block is None:
            return self.attend_to_sentence(*self.qkv_proj(x, context), context)
        return self.attend_to_source(self.q_proj(x, context), context)

    def attend_to_source(self, query: Tensor, context: Context) -> Tensor:
        """Attend to a block of the source, and append the weights to those of the context.

        Args:
            query: R x T x hE.
            context: the context of the forward pass.
        Returns:
            R x T x hE'.
        """
        rows, steps, _ = query.shape
        assert self.block is not None
        keys, values = self.source_keys_values(context.source.blocks[self.block], context)
        # All hypotheses of a sentence are in one row, one after the other.
        query = split_heads(query.reshape(keys.size(0), -1, query.size(-1)), self.heads)
        mask = self.source_mask(query, keys, context)
        attended, weights = self.attend(
            query, keys, values, mask=mask, need_weights=context.need_weights
        )
        if weights is not None:
            by_row = weights.unflatten(2, (-1, steps)).transpose(1, 2).flatten(0, 1)
            context.attention.append(LayerAttention(self.name, True, by_row))
        return join_heads(attended).reshape(rows, steps, -1)

    def source_mask(self, query: Tensor, keys: Tensor, context: Context) -> Tensor | None:
        """The mask of attention to the source, for ``dot_product_attention``.

        Args:
            query: B x h x (beam_size * T) x E, ordered by hypothesis, then by position.
            keys: B x g x S x E.
            context: the context of the forward pass.
        """
        padding = context.source.padding_mask
        return None if padding is None else ~padding[:, None, None]

    def source_keys_values(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Keys and values of the source, B x g x S x E, computed once per sentence."""
        state = context.layer_state(self)
        if state is not None and "keys" in state.sentences:
            return state.sentences["keys"], state.sentences["values"]
        keys, values = (
            split_heads(projected, self.kv_heads)
            for projected in self.kv_proj(to_autocast_dtype(source), context)
        )
        if state is not None:
            keys, values = keys.contiguous(), values.contiguous()
            state.sentences.update(keys=keys, values=values)
        return keys, values

    def attend_to_sentence(
        self, query: Tensor, keys: Tensor, values: Tensor, context: Context
    ) -> Tensor:
        """Attend to the sentence itself; in a decoder, to the past.

        Args:
            query: R x T x hE.
            keys: R x T x gE.
            values: R x T x gE'.
            context: the context of the forward pass.
        Returns:
            R x T x hE'.
        """
        state = context.layer_state(self)
        if state is not None:
            return self.attend_to_cache(query, keys, values, context, state)
        query = split_heads(query, self.heads)
        keys, values = split_heads(keys, self.kv_heads), split_heads(values, self.kv_heads)
        padding, causal = context.padding_mask, self.causal
        mask = None if padding is None else ~padding[:, None, None]
        if self.distances is not None:
            mask, causal = self.distances.in_sentence(query, context), False
        attended, weights = self.attend(
            query, keys, values, mask, causal, need_weights=recorded_maps() is not None
        )
        if weights is not None:
            context.attention.append(LayerAttention(self.name, False, weights))
        return join_heads(attended)

    def attend_to_cache(
        self, query: Tensor, keys: Tensor, values: Tensor, context: Context, state: State
    ) -> Tensor:
        """Append keys and values to the key-value cache and attend to the past.

        Args:
            query: R x n x hE, of n new positions.
            keys, values: R x n x gE.
            context: the context of the forward pass.
            state: the incremental state of this layer.
        Returns:
            R x n x hE.
        """
        rows, steps, _ = query.shape
        beam_size = context.beam_size
        # Queries of a sentence are ordered by hypothesis, cache columns by position.
        query = split_heads(query.reshape(rows // beam_size, beam_size * steps, -1), self.heads)
        keys, values = (
            split_heads(
                new.unflatten(0, (-1, beam_size)).transpose(1, 2).flatten(1, 2), self.kv_heads
            )
            for new in (keys, values)
        )
        keys, values = state.kv_cache().append(keys, values)
        mask, first = context.cache_mask, 0
        if self.distances is not None:
            length = keys.size(2) // beam_size
            mask = self.distances.in_cache(query, steps, length, context)
            # Columns before the window are ignored.
            first = self.distances.first_in_cache(steps, length) * beam_size
            keys, values = keys[:, :, first:], values[:, :, first:]
        # Separate matrix multiplications are faster than fused kernels for the few queries of many
        # sentences.
        recorded = recorded_maps() is not None
        need_weights = recorded or not has_few_scores(query, keys)
        attended, weights = self.attend(query, keys, values, mask=mask, need_weights=need_weights)
        if recorded and weights is not None:
            found = LayerAttention(self.name, False, F.pad(weights, (first, 0)))
            context.attention.append(found)
        return join_heads(attended).reshape(rows, steps, -1)

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attention context and the weights; see ``nn.attention.dot_product_attention``."""
        return dot_product_attention(
            query, keys, values, mask, self.scale, causal, self.dropout, need_weights
        )


def split_heads(x: Tensor, heads: int) -> Tensor:
    """B x T x hE to B x h x T x E."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """B x h x T x E to B x T x hE."""
    return x.transpose(1, 2).flatten(2)


@implements("dot_att")
class DotAttentionLayer(AttentionLayer):
    """``dot_att``: dot products of the input and the source, both as they are."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec, scale=spec["s"] ** -0.5)

    def q_proj(self, x: Tensor, context: Context) -> Tensor:
        """The input as it is."""
        return x

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """The source as keys and as values."""
        return source, source


@implements("proj_dot_src_att", "proj_dot_self_att")
class ProjectedAttentionLayer(AttentionLayer):
    """``proj_dot_src_att``, ``proj_dot_self_att``: dot attention after linear maps, for one head.

    Args:
        spec: the resolved layer.
        heads: h (1).
        kv_heads: g, heads of keys and values; None for h.
        bias: whether the maps have biases (False).
    """

    def __init__(
        self, spec: LayerSpec, heads: int = 1, kv_heads: int | None = None, bias: bool = False
    ):
        super().__init__(spec, heads, spec["s"] ** -0.5, kv_heads)
        inner, shared = spec["d_p"], kv_width(spec)
        self.widths = [inner, shared, shared]
        if spec.source_width is None:
            # As in the authors' code: the fan-out of one matrix gives smaller weights than that of
            # three, so the first attention is more even.
            self.queries_keys_values = xavier_linear(spec.input_width, sum(self.widths), bias)
        else:
            self.queries = xavier_linear(spec.input_width, inner, bias)
            self.keys_values = xavier_linear(spec.source_width, 2 * shared, bias, parts=2)

    def q_proj(self, x: Tensor, context: Context) -> Tensor:
        """Queries, for attention to the source."""
        return self.queries(x)

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Keys and values of the source."""
        return self.keys_values(source).chunk(2, dim=-1)

    def qkv_proj(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values in one matrix multiplication, for self-attention."""
        return self.queries_keys_values(x).split(self.widths, dim=-1)


@implements("mlp_src_att", "mlp_self_att")
class MlpAttentionLayer(AttentionLayer):
    """``mlp_src_att``, ``mlp_self_att``: scores w tanh(W_q q + W_k k), values as they are."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec)
        self.queries = xavier_linear(spec.input_width, spec["d_p"], bias=False)
        self.keys = xavier_linear(attended_width(spec), spec["d_p"], bias=False)
        self.weight = nn.Parameter(torch.empty(spec["d_p"]))
        bound = math.sqrt(6 / (spec["d_p"] + 1))
        nn.init.uniform_(self.weight, -bound, bound)

    def q_proj(self, x: Tensor, context: Context) -> Tensor:
        """Projected queries."""
        return self.queries(x)

    def kv_proj(self, source: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Projected keys, and the source as values."""
        return self.keys(source), source

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The context and the weights; arguments as in `nn.attention.dot_product_attention`."""
        hidden = (query.unsqueeze(3) + keys.unsqueeze(2)).tanh()
        scores = hidden @ self.weight.to(hidden.dtype)
        if causal:
            mask = causal_mask(scores)
        weights = masked_softmax(scores, mask)
        context = self.dropout(weights).to(values.dtype) @ values
        return context, weights if need_weights else None
