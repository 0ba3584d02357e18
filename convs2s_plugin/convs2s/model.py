"""ConvS2S (Gehring et al. 2017): convolutions on both sides, attention in every decoder layer."""

import math
from typing import Any

from fairseq.models import register_model
from torch import Tensor

from ..base import (
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embeddings,
    fill_defaults,
    max_positions,
    register_architectures,
)
from ..decoding.state import child
from ..nn.autocast import to_autocast_dtype
from ..nn.dropout import Dropout
from ..nn.embedding import Embedding, LearnedPositions
from ..nn.gradient import scale_gradient
from ..nn.output import output_projection
from ..nn.weight_norm import WeightNormLinear
from .architectures import ARCHITECTURES, BASE, MODEL
from .blocks import ConvBlocks
from .config import ConvS2SConfig, check_options
from .layer_lists import parse_attention, parse_layers


class ConvS2SEncoder(PluginEncoder):
    """Embeddings, convolutions centred on each word, a map back to the embeddings' width."""

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        blocks: ConvBlocks,
        gradient_scale: float,
        longest: int,
    ):
        super().__init__(dictionary, embed, longest)
        embed_dim = embed.words.embedding_dim
        layers = blocks.layers
        self.input = WeightNormLinear(embed_dim, layers[0].channels, dropout=embed.dropout.p)
        self.blocks = blocks
        self.output = WeightNormLinear(layers[-1].channels, embed_dim)
        self.gradient_scale = gradient_scale

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused):
        """Encode B x S words.

        Args:
            src_tokens: B x S word indices, padded on any side.
            src_lengths: not needed; the padding says it.
        Returns:
            A dictionary: ``encoder_out`` (keys) and ``encoder_values``, B x S x E;
            ``encoder_padding_mask``, B x S or None; ``encoder_lengths``, B;
            ``beam_size``, 1 (see modules/state.py).
        """
        padding = src_tokens.eq(self.dictionary.pad())
        mask = padding if bool(padding.any()) else None
        embedded = self.embed(src_tokens, padding)
        x, _ = self.blocks(self.input(embedded).to(embedded.dtype), mask)
        x = self.output(x)
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        x = scale_gradient(x, self.gradient_scale)
        return {
            "encoder_out": x,
            "encoder_values": to_autocast_dtype((x + embedded).mul_(math.sqrt(0.5))),
            "encoder_padding_mask": mask,
            "encoder_lengths": (~padding).sum(dim=1),
            "beam_size": 1,
        }


class ConvS2SDecoder(PluginDecoder):
    """Embeddings, causal convolutions with attention, a projection to words."""

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        blocks: ConvBlocks,
        out_embed_dim: int,
        tied: bool,
        longest: int,
    ):
        super().__init__(dictionary, embed, longest)
        dropout = embed.dropout.p
        layers = blocks.layers
        self.input = WeightNormLinear(
            embed.words.embedding_dim, layers[0].channels, dropout=dropout
        )
        self.blocks = blocks
        self.features = WeightNormLinear(layers[-1].channels, out_embed_dim)
        self.dropout = Dropout(dropout)
        self.output = output_projection(out_embed_dim, embed.words, tied, dropout)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_attn: bool | None = None,
        **unused,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """The decoder's output before the words' scores.

        Args:
            prev_output_tokens: B x T, the whole prefix.
            encoder_out: the encoder's dictionary.
            incremental_state: holds what earlier steps left; only the positions after them are
                computed then.
            need_attn: whether to return attention weights; None for ``self.need_attn``.
        Returns:
            B x T x E' and ``{"attn": [weights B x T x S, averaged over the layers that attend]}``
            (None instead of weights if they are not needed).
        """
        state = self.state(incremental_state)
        start = 0 if state is None else state.length
        padding = prev_output_tokens.eq(self.dictionary.pad())
        embedded = self.embed(prev_output_tokens, padding, start)
        # Padding to the right cannot reach a word through a causal convolution.
        left_padded = bool(padding[:, start : start + 1].any())
        x, attention = self.blocks(
            self.input(embedded, child(state, "input")).to(embedded.dtype),
            padding[:, start:] if left_padded else None,
            encoder_out,
            embedded,
            child(state, "blocks"),
            self.need_attn if need_attn is None else need_attn,
        )
        if state is not None:
            state.length = prev_output_tokens.size(1)
        features = self.dropout(self.features(x, child(state, "features")))
        return features, {"attn": [attention]}


@register_model(MODEL, dataclass=ConvS2SConfig)
class ConvS2SModel(PluginModel):
    """Convolutional sequence to sequence learning (Gehring et al. 2017)."""

    @classmethod
    def build_model(cls, cfg: ConvS2SConfig, task) -> "ConvS2SModel":
        """Build the model that a configuration describes.

        Args:
            cfg: the options above.
            task: a translation task, with a source and a target dictionary.
        Raises:
            UserError: where options cannot be read or do not fit together.
        """
        fill_defaults(cfg, BASE)
        encoder_layers = parse_layers(str(cfg.encoder_layers), "--encoder-layers")
        decoder_layers = parse_layers(str(cfg.decoder_layers), "--decoder-layers")
        attention = parse_attention(
            str(cfg.decoder_attention), len(decoder_layers), "--decoder-attention"
        )
        check_options(cfg, task)
        source_words, target_words = build_embeddings(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim
        )

        def embedding(words, side, longest, without_positions):
            positions = None
            if not without_positions:
                positions = LearnedPositions(longest, words.embedding_dim, side)
            return Embedding(words, positions, cfg.dropout)

        longest_source = max_positions(cfg.max_source_positions)
        longest_target = max_positions(cfg.max_target_positions)
        encoder = ConvS2SEncoder(
            task.source_dictionary,
            embedding(source_words, "source", longest_source, cfg.no_source_positions),
            ConvBlocks(encoder_layers, causal=False, dropout=cfg.dropout),
            gradient_scale=1.0 / (cfg.encoder_gradient_uses * sum(attention)),
            longest=longest_source,
        )
        decoder = ConvS2SDecoder(
            task.target_dictionary,
            embedding(target_words, "target", longest_target, cfg.no_target_positions),
            ConvBlocks(decoder_layers, True, cfg.dropout, attention, cfg.decoder_embed_dim),
            out_embed_dim=cfg.decoder_out_embed_dim,
            tied=cfg.share_input_output_embed or cfg.share_all_embeddings,
            longest=longest_target,
        )
        return cls(encoder, decoder)


register_architectures(
    MODEL, ConvS2SConfig, BASE, {name: row.options for name, row in ARCHITECTURES.items()}
)
