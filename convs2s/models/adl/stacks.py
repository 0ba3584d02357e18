"""The layers of an encoder or a decoder, in a full pass and in incremental decoding.

Layers expect padding after the tokens. Stacks move tokens to the left before the first layer, and
move features back if the caller needs the columns of the batch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...common.errors import EmptySequence
from ...nn.attention import DECODER, ENCODER, MEAN_ALIGNMENT, SOURCE, Alignment, recorded_maps
from ...nn.embedding import Embedding
from ...nn.padding import (
    PaddingOrder,
    order_padding_last,
    select_columns,
    starts_with_padding,
)
from ...nn.state import Backpointers, State
from .context import Context, LayerAttention, Source
from .language.spec import StackSpec
from .layers.chains import build_layer, share_weights_


class EncoderStack(nn.ModuleList):
    """The layers of a source side.

    Args:
        spec: the resolved stack.
        blocks: numbers of the blocks to return besides the output; the topmost block is the output
            and is ignored here.
    """

    def __init__(self, spec: StackSpec, blocks: Iterable[int] = ()):
        super().__init__(map(build_layer, spec.layers))
        share_weights_(self)
        # The number of layers below the output of a block -> the number of the block.
        self.ends = {spec.block_end(block): block for block in blocks if block < spec.blocks}

    def forward(
        self, embed: Embedding, tokens: Tensor, padding_mask: Tensor
    ) -> tuple[Tensor, dict[int, Tensor], PaddingOrder]:
        """Embed the tokens and apply all layers.

        Args:
            embed: the embedding of tokens, B x S to B x S x E, without positions.
            tokens: B x S.
            padding_mask: B x S, True at padding, on any side.
        Returns:
            The output B x S x C with padding after the tokens, the requested blocks by number in
            the same order of columns, and that order.
        Raises:
            EmptySequence: if a sentence has no tokens.
        """
        padding_order = order_padding_last(padding_mask)
        if padding_order.shortest == 0:
            raise EmptySequence(int(padding_order.lengths.argmin()))
        x = embed(padding_order.apply(tokens), padding_mask)
        context = Context(*padding_order.positions(), padding_order.padding_mask)
        blocks = {}
        for number, layer in enumerate(self):
            if number in self.ends:
                blocks[self.ends[number]] = x
            x = layer(x, context)
        if (maps := recorded_maps()) is not None:
            for found in context.attention:
                weights = padding_order.restore(padding_order.restore(found.weights, 2), 3)
                maps.add(ENCODER, weights, found.name)
        return x, blocks, padding_order


class DecoderStack(nn.ModuleList):
    """The layers of a target side.

    Args:
        spec: the resolved stack.
        input_feeding: whether the input is the embedding concatenated with the previous output
            (section 2.4; False).
    """

    def __init__(self, spec: StackSpec, input_feeding: bool = False):
        super().__init__(map(build_layer, spec.layers))
        share_weights_(self)
        # Their incremental states have numbers: where a graph is made, modules have stand-ins.
        for number, module in enumerate(self.modules()):
            setattr(module, "state_number", number)  # noqa: B010
        self.width = spec.width
        self.input_feeding = input_feeding

    def forward(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding_mask: Tensor,
        source: Source,
        state: State | None = None,
        need_weights: bool = False,
        alignment: Alignment = MEAN_ALIGNMENT,
    ) -> tuple[Tensor, Tensor | None]:
        """Embed the tokens and apply all layers.

        Args:
            embed: the embedding of tokens, R x T to R x T x E, without positions.
            tokens: R x T, the whole prefix.
            padding_mask: R x T, True at padding, on any side.
            source: the encoder output that layers attend to.
            state: the incremental state, a root, with ``length`` decoded positions; None for a
                full pass.
            need_weights: whether to return attention weights (False).
            alignment: the layer and the heads whose weights to return (default: all).
        Returns:
            Features R x T x C of the positions that are not decoded yet, and their attention
            weights R x T x S, averaged over these layers and heads (None if they are not needed,
            or if no layer attends to the source).
        """
        if state is not None:
            features, attention = self.forward_incremental(
                embed, tokens, padding_mask, source, state, need_weights
            )
            # The key-value caches of self-attention have columns of their own.
            attention = [found for found in attention if found.to_source]
            return features, _collect(attention, source, None, alignment)
        padding_order = order_padding_last(padding_mask)
        # Padding follows the tokens, where no token sees it in a causal pass.
        context = Context(*padding_order.positions(), source=source, need_weights=need_weights)
        x = embed(padding_order.apply(tokens), padding_mask)
        if self.input_feeding:
            features = self.forward_by_position(x, context, None, State(), Backpointers(1))
        else:
            features = self.apply_layers(x, context)
        weights = _collect(context.attention, source, padding_order.inverse, alignment)
        return padding_order.restore(features), weights

    def forward_incremental(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding_mask: Tensor,
        source: Source,
        state: State,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[LayerAttention]]:
        """As ``forward``, for the positions from ``state.length`` on.

        The caller advances ``state.length``.

        Returns:
            Features, and the weights of each layer.
        """
        if state.backpointers is None:
            state.beam_size = source.beam_size
            state.backpointers = Backpointers(source.beam_size)
        backpointers = state.backpointers
        start, length = state.length, tokens.size(1)
        x = embed(tokens, padding_mask, start)
        # The device is asked only at the first position; later, the backpointers know the answer.
        padded = backpointers.padding_mask is not None
        if padded or (start == 0 and starts_with_padding(padding_mask)):
            positions = ((~padding_mask).cumsum(dim=1) - 1).clamp(min=0)
            length, positions = int(positions.max()) + 1, positions[:, start:]
            mask = padding_mask[:, start:]
        else:
            positions, mask = torch.arange(start, length, device=x.device), None
        context = Context(positions, length, source=source, need_weights=need_weights)
        if mask is not None or self.input_feeding:
            features = self.forward_by_position(x, context, mask, state, backpointers)
        else:
            context.state, context.beam_size = state, backpointers.beam_size
            context.cache_mask = backpointers.extend(tokens[:, start:])
            features = self.apply_layers(x, context)
        return features, context.attention

    def forward_by_position(
        self,
        x: Tensor,
        context: Context,
        padding_mask: Tensor | None,
        state: State,
        backpointers: Backpointers,
    ) -> Tensor:
        """As ``apply_layers``, one position after the other.

        Args:
            x: R x T x E.
            context: the context of the forward pass, in which the attention of all positions is
                left.
            padding_mask: R x T, True at padding, which precedes the tokens; None if there is none.
            state: the incremental state.
            backpointers: of the key-value caches in the state.
        """
        features: list[Tensor] = []
        attention: list[list[LayerAttention]] = []
        for t in range(x.size(1)):
            mask = None if padding_mask is None else padding_mask[:, t : t + 1]
            inputs = x[:, t : t + 1]
            step = replace(
                context,
                positions=context.positions[..., t : t + 1],
                padding_mask=mask,
                state=state,
                beam_size=backpointers.beam_size,
                cache_mask=backpointers.extend(inputs[..., 0], mask),
                attention=[],
            )
            if self.input_feeding:
                previous = state.rows.get("output", x.new_zeros(x.size(0), self.width))
                inputs = torch.cat([inputs, previous.unsqueeze(1)], dim=-1)
            output = self.apply_layers(inputs, step)
            if self.input_feeding:
                new = output.squeeze(1).to(x.dtype)
                state.rows["output"] = new if mask is None else torch.where(mask, previous, new)
            features.append(output)
            attention.append(step.attention)
        context.attention = [_join(layer) for layer in zip(*attention)]
        return torch.cat(features, dim=1)

    def apply_layers(self, x: Tensor, context: Context) -> Tensor:
        """Apply all layers to R x T x C; their attention is left in the context."""
        for layer in self:
            x = layer(x, context)
        return x


def _join(steps: Sequence[LayerAttention]) -> LayerAttention:
    """The attention of one layer to more and more keys, one query after the other."""
    keys = steps[-1].weights.size(-1)
    padded = [F.pad(step.weights, (0, keys - step.weights.size(-1))) for step in steps]
    return steps[-1]._replace(weights=torch.cat(padded, dim=2))


def _collect(
    attention: list[LayerAttention],
    source: Source,
    columns: Tensor | None,
    alignment: Alignment,
) -> Tensor | None:
    """Bring the attention of a decoder to the columns of the batch, and record it.

    Args:
        attention: the weights of each layer.
        source: the encoder output.
        columns: R x T, for each target column of the batch its column here; None if all stay in
            place.
        alignment: the layer and the heads whose weights to return.
    Returns:
        The attention to the source averaged over these heads, then over layers, R x T x S; None
        if no layer has any.
    """

    def restore(weights: Tensor, to_source: bool) -> Tensor:
        weights = select_columns(weights, columns, weights.dim() - 2)
        return select_columns(weights, source.columns if to_source else columns, -1)

    if (maps := recorded_maps()) is not None:
        for found in attention:
            kind = SOURCE if found.to_source else DECODER
            maps.add(kind, restore(found.weights, found.to_source), found.name)
    weights = alignment.of([found.weights for found in attention if found.to_source])
    return None if weights is None else restore(weights, True)
