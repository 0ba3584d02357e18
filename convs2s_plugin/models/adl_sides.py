"""The encoder and the decoder of a model in ADL: embeddings and a chain of layers each."""

from typing import Any, Dict, List, Optional, Tuple

from torch import Tensor, nn

from ..adl.modules.context import Source
from ..adl.recipe import Side
from ..modules.embedding import Embedding
from .adl_chains import SourceChain, TargetChain
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
        super().__init__(dictionary, embed, longest)
        self.layers = SourceChain(side, blocks)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **unused):
        """Encode B x S words.

        Args:
            src_tokens: B x S word indices, padded on any side.
            src_lengths: not needed; the padding says it.
        Returns:
            A dictionary of tensors whose rows are sentences with their padding behind them:
            ``encoder_out``, B x S x C; ``block0``, ``block1``, ... where the decoder attends to
            others than the topmost; ``encoder_padding_mask``, B x S or None; ``encoder_places``,
            B x S, where the columns of ``src_tokens`` have gone (None: nowhere); and
            ``rows_per_sentence``, 1 (see modules/state.py).
        """
        padding = src_tokens.eq(self.dictionary.pad())
        x, blocks, words = self.layers.encode(self.embed, src_tokens, padding)
        return {
            "encoder_out": x,
            **{f"block{number}": block for number, block in blocks.items()},
            "encoder_padding_mask": words.mask,
            "encoder_places": words.places,
            "rows_per_sentence": 1,
        }


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
        super().__init__(dictionary, embed, longest)
        self.layers = TargetChain(side, input_feeding)
        self.blocks = blocks
        self.output = output

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
        features, attention = self.layers.decode(
            self.embed,
            prev_output_tokens,
            prev_output_tokens.eq(self.dictionary.pad()),
            self.source(encoder_out),
            self.state(incremental_state),
        )
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
