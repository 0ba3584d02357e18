"""The layers of an encoder or a decoder, in a full pass and in incremental decoding.

Layers expect padding after the tokens. Stacks move tokens to the left before the first layer, and
move features back if the caller needs the columns of the batch.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..decoding.kv_cache import Backpointers
from ..decoding.state import State
from ..nn.embedding import Embedding
from ..nn.padding import PaddingOrder, order_padding_last
from .context import Context, Source
from .language.spec import StackSpec
from .layers.chains import build_layer


class EncoderStack(nn.ModuleList):
    """The layers of a source side.

    Args:
        spec: the resolved stack.
        blocks: numbers of the blocks to return beside the output; the topmost block is the output
            and is ignored here.
    """

    def __init__(self, spec: StackSpec, blocks: Iterable[int] = ()):
        super().__init__(map(build_layer, spec.layers))
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
        """
        padding_order = order_padding_last(padding_mask)
        x = embed(padding_order.apply(tokens), padding_mask)
        context = Context(*padding_order.positions(), padding_order.padding_mask)
        blocks = {}
        for number, layer in enumerate(self):
            if number in self.ends:
                blocks[self.ends[number]] = x
            x = layer(x, context)
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
        Returns:
            Features R x T x C of the positions that are not decoded yet, and their attention
            weights R x T x S, averaged over layers and heads (None if they are not needed, or if
            no layer attends to the source).
        """
        if state is not None:
            return self.forward_incremental(
                embed, tokens, padding_mask, source, state, need_weights
            )
        padding_order = order_padding_last(padding_mask)
        # Padding follows the tokens, where no token sees it in a causal pass.
        context = Context(*padding_order.positions(), source=source, need_weights=need_weights)
        x = embed(padding_order.apply(tokens), padding_mask)
        if self.input_feeding:
            features, attention = self.forward_by_position(
                x, context, None, State(), Backpointers(1)
            )
        else:
            features, attention = self.apply_layers(x, context)
        if attention is not None:
            attention = padding_order.restore(attention)
        return padding_order.restore(features), attention

    def forward_incremental(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding_mask: Tensor,
        source: Source,
        state: State,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As ``forward``, for the positions from ``state.length`` on.

        The caller advances ``state.length``.
        """
        if state.backpointers is None:
            state.beam_size = source.beam_size
            state.backpointers = Backpointers(source.beam_size)
        backpointers = state.backpointers
        start, length = state.length, tokens.size(1)
        x = embed(tokens, padding_mask, start)
        if bool(padding_mask[:, 0].any()):
            positions = ((~padding_mask).cumsum(dim=1) - 1).clamp(min=0)
            longest = int(positions.max()) + 1
            context = Context(
                positions[:, start:], longest, source=source, need_weights=need_weights
            )
            return self.forward_by_position(
                x, context, padding_mask[:, start:], state, backpointers
            )
        positions = torch.arange(start, length, device=x.device)
        context = Context(positions, length, source=source, need_weights=need_weights)
        if self.input_feeding:
            return self.forward_by_position(x, context, None, state, backpointers)
        context.state, context.beam_size = state, backpointers.beam_size
        context.cache_mask = backpointers.extend(tokens[:, start:])
        return self.apply_layers(x, context)

    def forward_by_position(
        self,
        x: Tensor,
        context: Context,
        padding_mask: Tensor | None,
        state: State,
        backpointers: Backpointers,
    ) -> tuple[Tensor, Tensor | None]:
        """As ``apply_layers``, one position after the other.

        Args:
            x: R x T x E.
            context: of the forward pass.
            padding_mask: R x T, True at padding, which precedes the tokens; None if there is none.
            state: the incremental state.
            backpointers: of the key-value caches in the state.
        """
        features: list[Tensor] = []
        attention: list[Tensor] = []
        for t in range(x.size(1)):
            mask = None if padding_mask is None else padding_mask[:, t : t + 1]
            step = Context(
                context.positions[..., t : t + 1],
                context.longest,
                mask,
                state,
                backpointers.beam_size,
                backpointers.extend(x[:, t : t + 1, 0], mask),
                context.source,
                context.need_weights,
            )
            inputs = x[:, t : t + 1]
            if self.input_feeding:
                previous = state.rows.get("output", x.new_zeros(len(x), self.width))
                inputs = torch.cat([inputs, previous.unsqueeze(1)], dim=-1)
            output, weights = self.apply_layers(inputs, step)
            if self.input_feeding:
                new = output.squeeze(1).to(x.dtype)
                state.rows["output"] = new if mask is None else torch.where(mask, previous, new)
            features.append(output)
            if weights is not None:
                attention.append(weights)
        return torch.cat(features, dim=1), torch.cat(attention, dim=1) if attention else None

    def apply_layers(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor | None]:
        """Apply all layers to R x T x C.

        Returns:
            R x T x C' and attention weights R x T x S, averaged over layers; None if no layer has
            left any in the context.
        """
        for layer in self:
            x = layer(x, context)
        if not context.attention:
            return x, None
        return x, torch.stack(context.attention).mean(dim=0)
