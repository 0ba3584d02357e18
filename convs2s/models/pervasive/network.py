"""Pervasive attention (Elbayad et al. 2018): one masked 2-D DenseNet over source and target."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...nn.attention import CONTRIBUTIONS, SOURCE, AttentionMaps, recorded_maps
from ...nn.embedding import Embedding
from ...nn.int8 import dense
from ...nn.output import OutputProjection, TiedOutputProjection
from ...nn.padding import lengths_and_mask
from ...nn.state import State, child
from ..adl.context import Source
from ..adl.language.spec import DECODER, ENCODER
from ..adl.stacks import DecoderStack, EncoderStack
from ..interface import Decoder, Encoder, Network, Vocabularies, build_embedding_matrices
from .grid_network import GridFeatures, GridProjection, PervasiveAttention
from .options import PervasiveOptions

# Initial embeddings are as small as those of the authors' code. Their size decides how fast the
# tied output layer and the first convolution learn.
EMBEDDING_STD = 0.01

# Positions whose logits are computed at a time if only the most probable tokens are needed.
CHUNK = 1024


class PervasiveEncoder(Encoder):
    """Source embeddings, optional layers in ADL, and the source projection of the grid.

    Args:
        embed: the source embeddings.
        layers: the layers between the embeddings and the grid, or None.
        share: the source projection.
        vocabularies: the vocabularies, for their special tokens.
        max_length: the maximum source length in tokens, end of sentence included.
        no_eos: whether to treat the end of a sentence as padding.
    """

    refuses_empty = True

    def __init__(
        self,
        embed: Embedding,
        layers: EncoderStack | None,
        share: GridProjection,
        vocabularies: Vocabularies,
        max_length: int,
        no_eos: bool = False,
    ):
        super().__init__(embed, vocabularies.pad, max_length)
        self.layers = layers
        self.share = share
        self.no_eos = no_eos
        self.eos = vocabularies.eos

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences; see ``Encoder.encode``.

        Returns:
            A dictionary with ``encoder_out``, the source projection B x S x C, and
            ``encoder_padding_mask``, B x S, or None if there is no padding.
        Raises:
            EmptySequence: if a sentence has no tokens.
        """
        if self.no_eos:
            ends = padding_mask | tokens.eq(self.eos)
            # The end of an empty sentence stays, so that every sentence has a token.
            padding_mask = torch.where(ends.all(dim=1, keepdim=True), padding_mask, ends)
        _, mask = lengths_and_mask(padding_mask)
        if self.layers is None:
            x = self.embed(tokens, padding_mask)
        else:
            x, _, padding_order = self.layers(self.embed, tokens, padding_mask)
            x = padding_order.restore(x)
        return {
            "encoder_out": self.share(x),
            "encoder_padding_mask": mask,
        }


class PervasiveDecoder(Decoder):
    """Target embeddings, optional layers in ADL, the network over the grid, and an output layer.

    Args:
        embed: the target embeddings.
        layers: the layers between the embeddings and the grid, or None.
        network: the network over the grid.
        output: the output layer, from features to logits.
        vocabularies: the vocabularies, for their special tokens.
        max_length: the maximum target length in tokens, end of sentence included.
        starts_with_bos: whether ``<s>`` replaces the ``</s>`` at the start of fairseq's targets.
    """

    aligns_tokens = True
    output: OutputProjection | TiedOutputProjection

    def __init__(
        self,
        embed: Embedding,
        layers: DecoderStack | None,
        network: PervasiveAttention,
        output: OutputProjection | TiedOutputProjection,
        vocabularies: Vocabularies,
        max_length: int,
        starts_with_bos: bool = False,
    ):
        super().__init__(embed, vocabularies.pad, max_length)
        self.layers = layers
        self.network = network
        self.output = output
        self.starts_with_bos = starts_with_bos
        self.bos, self.eos = vocabularies.bos, vocabularies.eos

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoded: dict[str, Any],
        state: State | None,
        need_weights: bool,
        target_tokens: Tensor | None = None,
        **unused: Any,
    ) -> tuple[Tensor, Callable[[Tensor | None], Tensor] | None]:
        """Compute the input of the output layer; see ``Decoder.decode``.

        Args:
            target_tokens: R x T, the tokens to align, for example those of a reference; None for
                the most probable token at each position.
        Returns:
            Features R x T x E', and a function from logits R x T x V (or None) to the alignments
            R x T x S of equations 7 and 8 (None if they are not needed).
        """
        start = 0 if state is None else state.length
        if self.starts_with_bos:
            tokens = tokens.masked_fill(tokens.eq(self.eos), self.bos)
        if self.layers is None:
            x = self.embed(tokens, padding_mask, start)
        else:
            source = Source({}, beam_size=encoded["beam_size"])
            x, _ = self.layers(self.embed, tokens, padding_mask, source, state)
        features, grid_features = self.network(
            encoded["encoder_out"],
            x,
            encoded["encoder_padding_mask"],
            padding_mask[:, start:],
            child(state, "network"),
        )
        if not need_weights:
            return features, None

        def align(logits: Tensor | None) -> Tensor:
            if target_tokens is not None:
                aligned = target_tokens[:, start:]
            elif logits is not None:
                aligned = logits.argmax(dim=-1)
            else:
                aligned = self.most_probable_tokens(features)
            token_vectors = self.token_vectors(aligned)
            if (maps := recorded_maps()) is not None:
                self.add_maps(maps, grid_features, token_vectors)
            return self.network.alignment(grid_features, token_vectors)

        return features, align

    @torch.no_grad()
    def most_probable_tokens(self, features: Tensor) -> Tensor:
        """The most probable token at each position, R x T, of features R x T x E'."""
        chunks = features.flatten(0, 1).split(CHUNK)
        tokens = torch.cat([self.output(chunk).argmax(dim=-1) for chunk in chunks])
        return tokens.view(features.shape[:2])

    @torch.no_grad()
    def add_maps(self, maps: AttentionMaps, features: GridFeatures, token_vectors: Tensor) -> None:
        """Add the alignments of tokens, and the contributions to their logits.

        Args:
            maps: the maps to which they are added.
            features, token_vectors: as for ``PervasiveAttention.alignment``.
        """
        found = self.network.aggregators(token_vectors)
        for part, weights in found:
            alignment = part.alignment(*features, weights).unsqueeze(1)
            maps.add(SOURCE, alignment, part.description, part.name)
        for part, weights in found:
            contributions = part.contributions(*features, weights).unsqueeze(1)
            maps.add(CONTRIBUTIONS, contributions, "parts of the logit", part.name)

    def token_vectors(self, tokens: Tensor) -> Tensor:
        """The output layer's weight vectors of tokens R x T, R x T x E'."""
        weight, _ = self.output.weight_and_bias(tokens.flatten())
        return dense(weight).view(*tokens.shape, -1)


class Pervasive(Network):
    """Pervasive attention (Elbayad et al. 2018).

    Args:
        options: the options.
        vocabularies: sizes of the vocabularies, and their special tokens.
    Raises:
        UserError: if options are out of range or contradict each other.
    """

    options_class = PervasiveOptions
    encoder_class = PervasiveEncoder
    decoder_class = PervasiveDecoder

    def __init__(self, options: PervasiveOptions, vocabularies: Vocabularies):
        options.check()
        source_matrix, target_matrix = build_embedding_matrices(
            options,
            vocabularies,
            options.encoder_embed_dim,
            options.decoder_embed_dim,
            std=EMBEDDING_STD,
        )
        source_layers, target_layers = options.layers(ENCODER), options.layers(DECODER)
        source_dim = source_layers.width if source_layers else options.encoder_embed_dim
        target_dim = target_layers.width if target_layers else options.decoder_embed_dim
        grid = PervasiveAttention(options, source_dim, target_dim)
        # The matrix E of equation 4: the target embeddings, or a matrix of its own.
        output: OutputProjection | TiedOutputProjection = TiedOutputProjection(target_matrix)
        if options.separate_output:
            output = OutputProjection(grid.out_channels, vocabularies.target)
        dropout = options.dropout_of("embedding_dropout")
        encoder = self.encoder_class(
            Embedding(source_matrix, None, dropout),
            EncoderStack(source_layers) if source_layers else None,
            GridProjection(ENCODER, options, source_dim, target_dim),
            vocabularies,
            options.max_source_positions,
            options.no_source_eos,
        )
        decoder = self.decoder_class(
            Embedding(target_matrix, None, dropout),
            DecoderStack(target_layers) if target_layers else None,
            grid,
            output,
            vocabularies,
            options.max_target_positions,
            options.target_bos,
        )
        super().__init__(encoder, decoder, options.right_to_left)
