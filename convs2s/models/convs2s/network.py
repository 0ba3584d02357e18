"""ConvS2S: a convolutional encoder, and a convolutional decoder with multi-step attention.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning".
"""

from typing import Any

import torch
from torch import Tensor

from ...nn.attention import MEAN_ALIGNMENT, SOURCE, Alignment, recorded_maps
from ...nn.dropout import Dropout
from ...nn.embedding import Embedding, EmbeddingMatrix, LearnedPositions
from ...nn.gradient import scale_gradient
from ...nn.linear import WeightNormLinear, to_autocast_dtype
from ...nn.output import TiedOutputProjection
from ...nn.padding import lengths_and_mask, starts_with_padding
from ...nn.state import State, child
from ..interface import Decoder, Encoder, Network, Vocabularies, build_embedding_matrices
from .blocks import ConvBlocks
from .layer_lists import parse_attention, parse_layers
from .multi_step_attention import EncoderOutput
from .options import ConvS2SOptions


class ConvS2SEncoder(Encoder):
    """Embedding, centered convolutions, and a linear map back to E channels.

    Args:
        embed: source embedding with E channels.
        blocks: the layers.
        gradient_scale: factor of the gradient that reaches the output from the decoder
            (section 3.4).
        pad, max_length: as for ``Encoder``.
    """

    refuses_empty = True

    def __init__(
        self,
        embed: Embedding,
        blocks: ConvBlocks,
        gradient_scale: float,
        pad: int,
        max_length: int,
    ):
        super().__init__(embed, pad, max_length)
        embed_dim = embed.words.embedding_dim
        layers = blocks.layers
        self.input = WeightNormLinear(embed_dim, layers[0].channels, dropout=embed.dropout.p)
        self.blocks = blocks
        self.output = WeightNormLinear(layers[-1].channels, embed_dim)
        self.gradient_scale = gradient_scale

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences; see ``Encoder.encode``.

        Returns:
            A dictionary with ``encoder_out``, the keys B x S x E; ``encoder_values``, B x S x E;
            and ``encoder_padding_mask``, B x S, or None if there is no padding.
        Raises:
            EmptySequence: if a sentence has no tokens.
        """
        lengths, mask = lengths_and_mask(padding_mask)
        embedded = self.embed(tokens, padding_mask)
        x, _ = self.blocks(self.input(embedded).to(embedded.dtype), mask)
        x = self.output(x)
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        x = scale_gradient(x, self.gradient_scale)
        # For all layers at once, rather than their contexts.
        exact = torch.promote_types(embedded.dtype, torch.float32)
        scale = (lengths.to(exact) * 0.5).sqrt().to(embedded.dtype).view(-1, 1, 1)
        return {
            "encoder_out": x,
            "encoder_values": to_autocast_dtype((x + embedded).mul_(scale)),
            "encoder_padding_mask": mask,
        }


class ConvS2SDecoder(Decoder):
    """Embedding, causal convolutions with attention, and the output layer.

    Args:
        embed: target embedding with E channels.
        blocks: the layers.
        out_embed_dim: channels of the input of the output layer.
        tied: whether the output layer uses the target embedding matrix.
        pad, max_length: as for ``Decoder``.
        alignment: the layer whose attention is the alignment (default: the mean of all).
    """

    output: TiedOutputProjection | WeightNormLinear

    def __init__(
        self,
        embed: Embedding,
        blocks: ConvBlocks,
        out_embed_dim: int,
        tied: bool,
        pad: int,
        max_length: int,
        alignment: Alignment = MEAN_ALIGNMENT,
    ):
        super().__init__(embed, pad, max_length)
        embed_dim, dropout = embed.words.embedding_dim, embed.dropout.p
        layers = blocks.layers
        self.input = WeightNormLinear(embed_dim, layers[0].channels, dropout=dropout)
        self.blocks = blocks
        self.alignment = alignment
        self.features = WeightNormLinear(layers[-1].channels, out_embed_dim)
        self.dropout = Dropout(dropout)
        if tied:
            self.output = TiedOutputProjection(embed.words)
        else:
            vocab_size = embed.words.num_embeddings
            self.output = WeightNormLinear(out_embed_dim, vocab_size, dropout=dropout)

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoded: dict[str, Any],
        state: State | None,
        need_weights: bool,
        alignment_layer: int | None = None,
        **unused: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the input of the output layer; see ``Decoder.decode``.

        Args:
            alignment_layer: the layer whose attention weights to return (default: that of the
                model).
        Returns:
            Features R x T x C, and the attention weights R x T x S of the layer, or averaged over
            the layers that attend (None if they are not needed).
        """
        start = 0 if state is None else state.length
        embedded = self.embed(tokens, padding_mask, start)

        # A causal convolution does not read padding on the right. Later steps know the answer of
        # the first one.
        if state is None:
            left_padded = starts_with_padding(padding_mask)
        else:
            left_padded = state.constant("left_padded", lambda: starts_with_padding(padding_mask))
        mask = padding_mask[:, start:] if left_padded else None
        features, attention = self.decode_embedded(embedded, mask, encoded, state, need_weights)
        if (maps := recorded_maps()) is not None:
            for layer, weights in attention.items():
                number = layer + 1
                maps.add(SOURCE, weights.unsqueeze(1), f"decoder layer {number}", str(number))
        alignment = self.alignment.replaced_by(alignment_layer, None)
        return features, alignment.of([weights.unsqueeze(1) for weights in attention.values()])

    def decode_embedded(
        self,
        embedded: Tensor,
        padding_mask: Tensor | None,
        encoded: dict[str, Any],
        state: State | None,
        need_weights: bool,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Compute the input of the output layer from the embedding of the new tokens.

        Args:
            embedded: R x T x E.
            padding_mask: R x T, True at padding; None if no padding precedes a token.
            encoded: the encoder's dictionary.
            state: the incremental state, or None.
            need_weights: whether to return attention weights.
        Returns:
            Features R x T x C, and the attention weights R x T x S of each layer that attends, by
            the index of the layer (empty if they are not needed).
        """
        x, attention = self.blocks(
            self.input(embedded).to(embedded.dtype),
            padding_mask,
            EncoderOutput(
                keys=encoded["encoder_out"],
                values=encoded["encoder_values"],
                padding_mask=encoded["encoder_padding_mask"],
            ),
            embedded,
            child(state, "blocks"),
            need_weights,
        )
        return self.dropout(self.features(x)), attention


class ConvS2S(Network):
    """Convolutional sequence to sequence learning (Gehring et al. 2017).

    Args:
        options: the options.
        vocabularies: sizes of the vocabularies, and their special tokens.
    Raises:
        UserError: if an option cannot be read or options contradict each other.
    """

    encoder: ConvS2SEncoder
    decoder: ConvS2SDecoder
    options_class = ConvS2SOptions
    encoder_class = ConvS2SEncoder
    decoder_class = ConvS2SDecoder

    def __init__(self, options: ConvS2SOptions, vocabularies: Vocabularies):
        encoder_layers = parse_layers(options.encoder_layers, "--encoder-layers")
        decoder_layers = parse_layers(options.decoder_layers, "--decoder-layers")
        attention = parse_attention(
            options.decoder_attention, len(decoder_layers), "--decoder-attention"
        )
        options.check()
        options.check_alignment_layer(sum(attention))
        source_matrix, target_matrix = build_embedding_matrices(
            options, vocabularies, options.encoder_embed_dim, options.decoder_embed_dim
        )
        source_length, target_length = options.max_source_positions, options.max_target_positions
        dropout = options.dropout
        encoder = self.encoder_class(
            _embedding(source_matrix, options.no_source_positions, source_length, dropout),
            ConvBlocks(encoder_layers, causal=False, dropout=dropout),
            gradient_scale=1.0 / (options.encoder_gradient_uses * sum(attention)),
            pad=vocabularies.pad,
            max_length=source_length,
        )
        decoder = self.decoder_class(
            _embedding(target_matrix, options.no_target_positions, target_length, dropout),
            ConvBlocks(decoder_layers, True, dropout, attention, options.decoder_embed_dim),
            out_embed_dim=options.decoder_out_embed_dim,
            tied=options.tied,
            pad=vocabularies.pad,
            max_length=target_length,
            alignment=Alignment(options.alignment_layer),
        )
        super().__init__(encoder, decoder, options.right_to_left)


def _embedding(
    matrix: EmbeddingMatrix, no_positions: bool, max_length: int, dropout: float
) -> Embedding:
    """Token and position embedding of one language."""
    positions = None if no_positions else LearnedPositions(max_length, matrix.embedding_dim)
    return Embedding(matrix, positions, dropout)
