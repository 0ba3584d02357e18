"""The encoder and the decoder of pervasive attention: embeddings, layers in ADL, the network."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..adl.modules.context import Source
from ..modules.embedding import Embedding
from ..modules.grid_input import GridShare
from ..modules.pervasive import GridFeatures, PervasiveAttention
from ..modules.state import child
from .adl_chains import SourceChain, TargetChain
from .base import PluginDecoder, PluginEncoder

# Features for which all words are scored at a time, where only the best word is wanted.
CHUNK = 1024


class PervasiveEncoder(PluginEncoder):
    """Source embeddings, and what they add to the grid.

    Args:
        dictionary: of the source.
        embed: its word vectors.
        layers: between embeddings and grid, or None.
        share: from there to the grid's first features.
        longest: words in the longest source, end of sentence included.
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        layers: Optional[SourceChain],
        share: GridShare,
        longest: int,
    ):
        super().__init__(dictionary, embed, longest)
        self.layers = layers
        self.share = share

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **unused):
        """Prepare B x S words.

        Args:
            src_tokens: B x S word indices, padded on any side.
            src_lengths: not needed; the padding says it.
        Returns:
            A dictionary: ``encoder_out``, B x S x C, the source's share of the grid's first
            features; ``encoder_padding_mask``, B x S or None; ``rows_per_sentence``, 1 (see
            modules/state.py).
        """
        padding = src_tokens.eq(self.dictionary.pad())
        if self.layers is None:
            x = self.embed(src_tokens, padding)
        else:
            x, _, words = self.layers.encode(self.embed, src_tokens, padding)
            x = words.restore(x)
        return {
            "encoder_out": self.share(x),
            "encoder_padding_mask": padding if bool(padding.any()) else None,
            "rows_per_sentence": 1,
        }


class PervasiveDecoder(PluginDecoder):
    """Target embeddings, the network over the grid, a projection to words.

    Args:
        dictionary: of the target.
        embed: its word vectors.
        layers: between embeddings and grid, or None.
        network: over the grid, from both sides to features.
        output: from features to scores of words.
        longest: words in the longest target, end of sentence included.
    """

    aligns_words = True

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        layers: Optional[TargetChain],
        network: PervasiveAttention,
        output: nn.Module,
        longest: int,
    ):
        super().__init__(dictionary, embed, longest)
        self.layers = layers
        self.network = network
        self.output = output

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Dict[str, Any]] = None,
        words: Optional[Tensor] = None,
        **unused,
    ) -> Tuple[Tensor, Dict[str, List[Optional[Tensor]]]]:
        """The decoder's output before the words' scores.

        Args:
            prev_output_tokens: B x T, the whole prefix.
            encoder_out: the encoder's dictionary.
            incremental_state: holds what earlier steps left; only the positions after them are
                computed then.
            words: B x T, the words whose alignments are wanted, those of a reference for example;
                None for the word that scores best at each position.
        Returns:
            B x T x E' and ``{"attn": [weights B x T x S]}``, of equations 7 and 8 (None instead of
            weights in training).
        """
        state = self.state(incremental_state)
        start = 0 if state is None else state.length
        padding = prev_output_tokens.eq(self.dictionary.pad())
        if self.layers is None:
            x = self.embed(prev_output_tokens, padding, start)
        else:
            source = Source({}, rows_per_sentence=encoder_out["rows_per_sentence"])
            x, _ = self.layers.decode(self.embed, prev_output_tokens, padding, source, state)
        features, last = self.network(
            encoder_out["encoder_out"],
            x,
            encoder_out["encoder_padding_mask"],
            padding[:, start:],
            child(state, "network"),
        )
        if state is not None:
            state.length = prev_output_tokens.size(1)
        if self.training:
            return features, {"attn": [None]}
        words = self.best_words(features) if words is None else words[:, start:]
        return features, {"attn": [self.alignment(last, words)]}

    @torch.no_grad()
    def best_words(self, features: Tensor) -> Tensor:
        """The word that scores best at each position, B x T, of features B x T x E'."""
        parts = features.flatten(0, 1).split(CHUNK)
        return torch.cat([self.output(part).argmax(dim=-1) for part in parts]).view_as(
            features[..., 0]
        )

    @torch.no_grad()
    def alignment(self, features: GridFeatures, words: Tensor) -> Tensor:
        """Which source positions words come from, B x T x S.

        Args:
            features: of the grid, which B x T positions have in the end.
            words: B x T indices.
        """
        vectors, _ = self.output.weight_and_bias(words.flatten())
        return self.network.alignment(features, vectors.view(*words.shape, -1))
