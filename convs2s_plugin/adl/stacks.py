"""From words through one chain of layers, whatever their padding, in one pass or step by step.

Layers want words in front of their padding: words are moved there before the chain, and what it
makes of them is moved back where the caller's columns count.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from ..decoding.kv_cache import Backpointers
from ..decoding.state import State
from ..nn.embedding import Embedding
from ..nn.padding import Compact, compact
from .context import Context, Source
from .language.spec import StackSpec
from .layers.chains import Chain


class EncoderStack(Chain):
    """The layers of a source side.

    Args:
        side: the resolved chain.
        blocks: numbers of the blocks that are wanted besides the output.
    """

    def __init__(self, side: StackSpec, blocks: Iterable[int] = ()):
        super().__init__(side.layers)
        # How many layers lead to a block, and its number; the topmost is the output.
        self.ends = {side.block_end(block): block for block in blocks if block < side.blocks}

    def encode(
        self, embed: Embedding, tokens: Tensor, padding: Tensor
    ) -> tuple[Tensor, dict[int, Tensor], Compact]:
        """Embed words and run all layers.

        Args:
            embed: from words to B x S x E, without positions.
            tokens: B x S word indices.
            padding: B x S, True at padding, on any side.
        Returns:
            B x S x C with the padding behind the words, the blocks that are wanted in the same
            order, and how columns have moved.
        """
        words = compact(padding)
        x = embed(words.apply(tokens), padding)
        positions, longest = words.positions()
        context = Context(positions, longest, words.mask)
        found = {}
        for number, layer in enumerate(self):
            if number in self.ends:
                found[self.ends[number]] = x
            x = layer(x, context)
        return x, found, words


class DecoderStack(Chain):
    """The layers of a target side.

    Args:
        side: the resolved chain.
        input_feeding: whether the last output is read beside the word (section 2.4).
    """

    def __init__(self, side: StackSpec, input_feeding: bool = False):
        super().__init__(side.layers)
        self.width = side.width
        self.input_feeding = input_feeding

    def decode(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding: Tensor,
        source: Source,
        state: State | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Embed words and run all layers.

        Args:
            embed: from words to R x T x E, without positions.
            tokens: R x T, the whole prefix.
            padding: R x T, True at padding, on any side.
            source: what layers attend to.
            state: the root of what generation remembers, in which ``length`` positions have been
                seen; None in a full pass.
            need_weights: whether to return the attention weights (False).
        Returns:
            R x T x C of the positions that had not been seen, and their attention R x T x S,
            averaged over all that attends (None if it is not needed, and if nothing attends).
        """
        if state is None:
            return self.whole(embed, tokens, padding, source, need_weights)
        return self.further(embed, tokens, padding, source, state, need_weights)

    def whole(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding: Tensor,
        source: Source,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Features and attention of all positions, where nothing is to be remembered."""
        words = compact(padding)
        # Padding stands behind the words, where no word sees it.
        context = Context(*words.positions(), source=source, need_weights=need_weights)
        x = embed(words.apply(tokens), padding)
        if self.input_feeding:
            state = State()
            state.backpointers = Backpointers(1)
            features, attention = self.column_by_column(x, context, None, state)
        else:
            features, attention = self.run(x, context)
        return words.restore(features), None if attention is None else words.restore(attention)

    def further(
        self,
        embed: Embedding,
        tokens: Tensor,
        padding: Tensor,
        source: Source,
        state: State,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Features and attention of the positions that follow those already seen."""
        if state.length == 0:
            state.beam_size = source.beam_size
            state.backpointers = Backpointers(source.beam_size)
        start, length = state.length, tokens.size(1)
        state.length = length
        x = embed(tokens, padding, start)
        if bool(padding[:, 0].any()):
            positions = ((~padding).cumsum(dim=1) - 1).clamp(min=0)
            longest = int(positions.max()) + 1
            context = Context(
                positions[:, start:], longest, source=source, need_weights=need_weights
            )
            return self.column_by_column(x, context, padding[:, start:], state)
        positions = torch.arange(start, length, device=x.device)
        context = Context(positions, length, source=source, need_weights=need_weights)
        if self.input_feeding:
            return self.column_by_column(x, context, None, state)
        context.state = state
        context.visible = state.backpointers.extend(tokens[:, start:])
        return self.run(x, context)

    def column_by_column(
        self, x: Tensor, context: Context, padding: Tensor | None, state: State
    ) -> tuple[Tensor, Tensor | None]:
        """As ``run``, one position after the other.

        Args:
            x: R x T x E.
            context: of the pass.
            padding: R x T, True at padding before the words; None where there is none.
            state: what is remembered from one position to the next.
        """
        features, attention = [], []
        for t in range(x.size(1)):
            mask = None if padding is None else padding[:, t : t + 1]
            column = Context(
                context.positions[..., t : t + 1],
                context.longest,
                mask,
                state,
                state.backpointers.extend(x[:, t : t + 1, 0], mask),
                context.source,
                context.need_weights,
            )
            inputs = x[:, t : t + 1]
            if self.input_feeding:
                last = state.rows.get("output", x.new_zeros(len(x), self.width))
                inputs = torch.cat([inputs, last.unsqueeze(1)], dim=-1)
            output, weights = self.run(inputs, column)
            if self.input_feeding:
                new = output.squeeze(1).to(x.dtype)
                state.rows["output"] = new if mask is None else torch.where(mask, last, new)
            features.append(output)
            attention.append(weights)
        weights = None if attention[0] is None else torch.cat(attention, dim=1)
        return torch.cat(features, dim=1), weights

    def run(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor | None]:
        """All layers: R x T x C' and the attention R x T x S, averaged over layers, or None."""
        x = self(x, context)
        if not context.attention:
            return x, None
        return x, torch.stack(context.attention).mean(dim=0)
