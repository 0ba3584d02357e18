"""ConvS2S: a convolutional encoder, and a convolutional decoder with multi-step attention.

Gehring et al. 2017, "Convolutional Sequence to Sequence Learning".
"""

import math
from typing import Any

from fairseq.models import register_model
from torch import Tensor, nn

from ...nn.attention import MEAN_ALIGNMENT, Alignment
from ...nn.attention_maps import SOURCE, AttentionMaps
from ...nn.autocast import to_autocast_dtype
from ...nn.dropout import Dropout
from ...nn.embedding import Embedding, LearnedPositions
from ...nn.gradient import scale_gradient
from ...nn.output import build_output_projection
from ...nn.padding import mask_or_none
from ...nn.state import State, child
from ...nn.weight_norm import WeightNormLinear
from ..base import (
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embedding_matrices,
    check_alignment_layer,
    check_types,
    fill_defaults,
    max_length_or_default,
    register_architectures,
)
from .architectures import ARCHITECTURES, BASE, MODEL
from .blocks import ConvBlocks
from .config import ConvS2SConfig, check_options
from .layer_lists import parse_attention, parse_layers
from .multi_step_attention import EncoderOutput


class ConvS2SEncoder(PluginEncoder):
    """Embedding, centered convolutions, and a linear map back to E channels.

    Args:
        dictionary: source dictionary.
        embed: source embedding with E channels.
        blocks: the layers.
        gradient_scale: factor of the gradient that reaches the output from the decoder
            (section 3.4).
        max_length: the largest number of tokens in a source sentence, end of sentence included.
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        blocks: ConvBlocks,
        gradient_scale: float,
        max_length: int,
    ):
        super().__init__(dictionary, embed, max_length)
        embed_dim = embed.words.embedding_dim
        layers = blocks.layers
        self.input = WeightNormLinear(embed_dim, layers[0].channels, dropout=embed.dropout.p)
        self.blocks = blocks
        self.output = WeightNormLinear(layers[-1].channels, embed_dim)
        self.gradient_scale = gradient_scale

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            tokens: B x S token indices.
            padding_mask: B x S, True at padding.
        Returns:
            A dictionary with ``encoder_out``, the keys B x S x E; ``encoder_values``, B x S x E;
            ``encoder_padding_mask``, B x S, or None if there is no padding; and
            ``encoder_lengths``, B.
        """
        mask = mask_or_none(padding_mask)
        embedded = self.embed(tokens, padding_mask)
        x, _ = self.blocks(self.input(embedded).to(embedded.dtype), mask)
        x = self.output(x)
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        x = scale_gradient(x, self.gradient_scale)
        return {
            "encoder_out": x,
            "encoder_values": to_autocast_dtype((x + embedded).mul_(math.sqrt(0.5))),
            "encoder_padding_mask": mask,
            "encoder_lengths": (~padding_mask).sum(dim=1),
        }


class ConvS2SDecoder(PluginDecoder):
    """Embedding, causal convolutions with attention, and the output layer.

    Args:
        dictionary: target dictionary.
        embed: target embedding with E channels.
        blocks: the layers.
        out_embed_dim: channels of the input of the output layer.
        tied: whether the output layer uses the target embedding matrix.
        max_length: the largest number of tokens in a target sentence, end of sentence included.
        alignment: the layer whose attention is the alignment (default: the mean of all).
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        blocks: ConvBlocks,
        out_embed_dim: int,
        tied: bool,
        max_length: int,
        alignment: Alignment = MEAN_ALIGNMENT,
    ):
        super().__init__(dictionary, embed, max_length)
        embed_dim, dropout = embed.words.embedding_dim, embed.dropout.p
        layers = blocks.layers
        self.input = WeightNormLinear(embed_dim, layers[0].channels, dropout=dropout)
        self.blocks = blocks
        self.alignment = alignment
        self.features = WeightNormLinear(layers[-1].channels, out_embed_dim)
        self.dropout = Dropout(dropout)
        self.output = build_output_projection(out_embed_dim, embed.words, tied, dropout)

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
        maps: AttentionMaps | None = None,
        alignment_layer: int | None = None,
        **unused,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the input of the output layer.

        Args:
            tokens: R x T indices of the previous target tokens.
            padding_mask: R x T, True at padding.
            encoder_out: the encoder's dictionary.
            state: the incremental state, or None. If it is given, only the positions from
                ``state.length`` on are computed.
            need_attn: whether to return attention weights.
            maps: to which the weights of each layer are added, or None.
            alignment_layer: the layer whose attention weights to return (default: that of the
                model).
        Returns:
            Features R x T x C, and the attention weights R x T x S of the layer, or averaged over
            the layers that attend (None if they are not needed).
        """
        start = 0 if state is None else state.length
        embedded = self.embed(tokens, padding_mask, start)
        # A causal convolution does not read padding on the right.
        left_padded = bool(padding_mask[:, start : start + 1].any())
        mask = padding_mask[:, start:] if left_padded else None
        features, attention = self.decode_embedded(embedded, mask, encoder_out, state, need_attn)
        if maps is not None:
            for layer, weights in attention.items():
                number = layer + 1
                maps.add(SOURCE, weights.unsqueeze(1), f"decoder layer {number}", str(number))
        alignment = self.alignment.replaced_by(alignment_layer, None)
        return features, alignment.of([weights.unsqueeze(1) for weights in attention.values()])

    def decode_embedded(
        self,
        embedded: Tensor,
        padding_mask: Tensor | None,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Compute the input of the output layer from the embedding of the new tokens.

        Args:
            embedded: R x T x E.
            padding_mask: R x T, True at padding; None if no padding precedes a token.
            encoder_out: the encoder's dictionary.
            state: the incremental state, or None.
            need_attn: whether to return attention weights.
        Returns:
            Features R x T x C, and the attention weights R x T x S of each layer that attends, by
            the index of the layer (empty if they are not needed).
        """
        x, attention = self.blocks(
            self.input(embedded, child(state, "input")).to(embedded.dtype),
            padding_mask,
            EncoderOutput(
                keys=encoder_out["encoder_out"],
                values=encoder_out["encoder_values"],
                padding_mask=encoder_out["encoder_padding_mask"],
                lengths=encoder_out["encoder_lengths"],
            ),
            embedded,
            child(state, "blocks"),
            need_attn,
        )
        return self.dropout(self.features(x, child(state, "features"))), attention


@register_model(MODEL, dataclass=ConvS2SConfig)
class ConvS2SModel(PluginModel):
    """Convolutional sequence to sequence learning (Gehring et al. 2017)."""

    @classmethod
    def build_model(cls, cfg: ConvS2SConfig, task) -> "ConvS2SModel":
        """Build the model.

        Args:
            cfg: the options.
            task: a translation task, for its dictionaries.
        Raises:
            UserError: if an option cannot be read or options contradict each other.
        """
        check_types(cfg, ConvS2SConfig)
        fill_defaults(cfg, BASE)
        encoder_layers = parse_layers(str(cfg.encoder_layers), "--encoder-layers")
        decoder_layers = parse_layers(str(cfg.decoder_layers), "--decoder-layers")
        attention = parse_attention(
            str(cfg.decoder_attention), len(decoder_layers), "--decoder-attention"
        )
        check_options(cfg, task)
        check_alignment_layer(cfg.alignment_layer, sum(attention))
        source_matrix, target_matrix = build_embedding_matrices(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim
        )
        max_source_length = max_length_or_default(cfg.max_source_positions)
        max_target_length = max_length_or_default(cfg.max_target_positions)
        encoder = ConvS2SEncoder(
            task.source_dictionary,
            _embedding(source_matrix, cfg, "source", max_source_length),
            ConvBlocks(encoder_layers, causal=False, dropout=cfg.dropout),
            gradient_scale=1.0 / (cfg.encoder_gradient_uses * sum(attention)),
            max_length=max_source_length,
        )
        decoder = ConvS2SDecoder(
            task.target_dictionary,
            _embedding(target_matrix, cfg, "target", max_target_length),
            ConvBlocks(decoder_layers, True, cfg.dropout, attention, cfg.decoder_embed_dim),
            out_embed_dim=cfg.decoder_out_embed_dim,
            tied=cfg.share_input_output_embed or cfg.share_all_embeddings,
            max_length=max_target_length,
            alignment=Alignment(cfg.alignment_layer),
        )
        return cls(encoder, decoder)


def _embedding(
    matrix: nn.Embedding, cfg: ConvS2SConfig, language: str, max_length: int
) -> Embedding:
    """Token and position embedding of the source or the target language."""
    positions = None
    if not getattr(cfg, f"no_{language}_positions"):
        positions = LearnedPositions(max_length, matrix.embedding_dim)
    return Embedding(matrix, positions, cfg.dropout)


register_architectures(MODEL, ConvS2SConfig, BASE, ARCHITECTURES)
