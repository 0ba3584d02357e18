"""The encoder and the decoder of a model in ADL: embeddings and a chain of layers each."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..adl.modules.chains import Chain
from ..adl.modules.context import Context, Source
from ..adl.recipe import Side
from ..modules.embedding import Embedding
from ..modules.history import Ancestry
from ..modules.padding import compact
from ..modules.state import State
from .base import PluginDecoder, PluginEncoder


class AdlEncoder(PluginEncoder):
    """Embeddings and the layers of one chain.

    Args:
        dictionary: of the source.
        embed: its word vectors.
        side: the resolved chain.
        blocks: numbers of the blocks that the decoder attends to.
        longest: words in the longest source, end of sentence included.
    """

    def __init__(self, dictionary, embed: Embedding, side: Side, blocks: List[int], longest: int):
        super().__init__(dictionary)
        self.embed = embed
        self.layers = Chain(side.layers)
        # How many layers lead to a block, and its number; the topmost is the output.
        self.ends = {side.block_end(block): block for block in blocks if block < side.blocks}
        self.longest = longest

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **unused):
        """Encode B x S words.

        Args:
            src_tokens: B x S word indices, padded on any side.
            src_lengths: not needed; the padding says it.
        Returns:
            A dictionary of tensors whose rows are sentences with their padding behind them:
            ``encoder_out``, B x S x C; ``block0``, ``block1``, ... where the decoder attends to
            others than the topmost; ``encoder_padding_mask``, B x S or None; ``encoder_lengths``,
            B; ``encoder_places``, B x S, where the columns of ``src_tokens`` have gone (None:
            nowhere); and ``rows_per_sentence``, 1 (see modules/state.py).
        """
        padding = src_tokens.eq(self.dictionary.pad())
        words = compact(padding)
        x = self.embed(words.apply(src_tokens), padding)
        longest = int(words.lengths.max())
        positions = torch.arange(x.size(1), device=x.device).clamp(max=longest - 1)
        context = Context(positions, longest, words.mask)
        found = {}
        for number, layer in enumerate(self.layers):
            if number in self.ends:
                found[f"block{self.ends[number]}"] = x
            x = layer(x, context)
        return {
            "encoder_out": x,
            **found,
            "encoder_padding_mask": words.mask,
            "encoder_lengths": words.lengths,
            "encoder_places": words.places,
            "rows_per_sentence": 1,
        }

    def max_positions(self) -> int:
        """Words in the longest source, end of sentence included."""
        return self.longest


class AdlDecoder(PluginDecoder):
    """Embeddings, the layers of one chain, a projection to words.

    Args:
        dictionary: of the target.
        embed: its word vectors.
        side: the resolved chain.
        blocks: numbers of the encoder's blocks that it attends to.
        output: from the chain's output to scores of words.
        input_feeding: whether the last output is read beside the word (section 2.4).
        longest: words in the longest target, end of sentence included.
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        side: Side,
        blocks: List[int],
        output: nn.Module,
        input_feeding: bool,
        longest: int,
    ):
        super().__init__(dictionary)
        self.embed = embed
        self.layers = Chain(side.layers)
        self.width = side.width
        self.blocks = blocks
        self.output = output
        self.input_feeding = input_feeding
        self.longest = longest

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        **unused,
    ) -> Tuple[Tensor, Dict[str, List[Optional[Tensor]]]]:
        """The decoder's output before the words' scores.

        Args:
            prev_output_tokens: B x T, the whole prefix.
            encoder_out: the encoder's dictionary.
            incremental_state: holds what earlier steps left; only the positions after them are
                computed then.
        Returns:
            B x T x C and ``{"attn": [weights B x T x S, averaged over all that attends]}`` (None
            instead of weights in training, and where nothing attends).
        """
        state = self.state(incremental_state)
        padding = prev_output_tokens.eq(self.dictionary.pad())
        source = self.source(encoder_out)
        if state is None:
            features, attention = self.whole(prev_output_tokens, padding, source)
        else:
            features, attention = self.further(prev_output_tokens, padding, source, state)
        places = encoder_out["encoder_places"]
        if attention is not None and places is not None:
            by_sentence = attention.view(len(places), -1, places.size(1))
            places = places.unsqueeze(1).expand(-1, by_sentence.size(1), -1)
            attention = by_sentence.gather(2, places).view_as(attention)
        return features, {"attn": [attention]}

    def source(self, encoder_out: Dict[str, Any]) -> Source:
        """What layers attend to, from the encoder's dictionary."""
        top = encoder_out["encoder_out"]
        return Source(
            {block: encoder_out.get(f"block{block}", top) for block in self.blocks},
            encoder_out["encoder_padding_mask"],
            encoder_out["rows_per_sentence"],
        )

    def whole(
        self, tokens: Tensor, padding: Tensor, source: Source
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Features and attention of all positions, where nothing is to be remembered."""
        words = compact(padding)
        longest = int(words.lengths.max())
        positions = torch.arange(tokens.size(1), device=tokens.device).clamp(max=longest - 1)
        # Padding stands behind the words, where no word sees it.
        context = self.context(positions, longest, source)
        x = self.embed(words.apply(tokens), padding)
        if self.input_feeding:
            state = State()
            state.ancestry = Ancestry(1)
            found = self.column_by_column(x, context, None, state)
        else:
            found = self.run(x, context)
        if words.places is None:
            return found
        return tuple(
            tensor if tensor is None else tensor.gather(1, _spread(words.places, tensor))
            for tensor in found
        )

    def further(
        self, tokens: Tensor, padding: Tensor, source: Source, state: State
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Features and attention of the positions that follow those already seen."""
        if state.length == 0:
            state.rows_per_sentence = source.rows_per_sentence
            state.ancestry = Ancestry(source.rows_per_sentence)
        start, length = state.length, tokens.size(1)
        state.length = length
        x = self.embed(tokens, padding, start)
        if bool(padding[:, 0].any()):
            positions = ((~padding).cumsum(dim=1) - 1).clamp(min=0)
            context = self.context(positions[:, start:], length, source)
            return self.column_by_column(x, context, padding[:, start:], state)
        context = self.context(torch.arange(start, length, device=x.device), length, source)
        if self.input_feeding:
            return self.column_by_column(x, context, None, state)
        context.state = state
        context.visible = state.ancestry.extend(tokens[:, start:])
        return self.run(x, context)

    def context(self, positions: Tensor, longest: int, source: Source) -> Context:
        """The context of a pass that remembers nothing."""
        return Context(positions, longest, source=source, need_weights=not self.training)

    def column_by_column(
        self, x: Tensor, context: Context, padding: Optional[Tensor], state: State
    ) -> Tuple[Tensor, Optional[Tensor]]:
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
                state.ancestry.extend(x[:, t : t + 1, 0], mask),
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

    def run(self, x: Tensor, context: Context) -> Tuple[Tensor, Optional[Tensor]]:
        """All layers: R x T x C' and the attention R x T x S, averaged over layers, or None."""
        x = self.layers(x, context)
        if not context.attention:
            return x, None
        return x, torch.stack(context.attention).mean(dim=0)

    def output_layer(self, features: Tensor, state: Optional[State] = None, **unused) -> Tensor:
        """Scores B x T x V of features B x T x C."""
        return self.output(features, state)

    def max_positions(self) -> int:
        """Words in the longest target, end of sentence included."""
        return self.longest


def _spread(places: Tensor, tensor: Tensor) -> Tensor:
    """B x T indices as many times as B x T x C has channels."""
    return places.unsqueeze(-1).expand(-1, -1, tensor.size(-1))
