"""Pervasive attention (Elbayad et al. 2018): one masked 2-D DenseNet over source and target."""

from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from ..adl.config import DEFINITIONS, keep_definitions, layer_settings
from ..adl.context import Source
from ..adl.language.resolve import resolve_side
from ..adl.language.spec import DECODER, ENCODER, StackSpec
from ..adl.stacks import DecoderStack, EncoderStack
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
from ..nn.embedding import Embedding
from ..nn.output import Output, TiedOutput
from .architectures import ARCHITECTURES, BASE, MODEL
from .config import PervasiveConfig, check_options
from .grid_projection import GridProjection, source_projection
from .network import GridFeatures, PervasiveAttention

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
        layers: EncoderStack | None,
        share: GridProjection,
        longest: int,
    ):
        super().__init__(dictionary, embed, longest)
        self.layers = layers
        self.share = share

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **unused):
        """Prepare B x S words.

        Args:
            src_tokens: B x S word indices, padded on any side.
            src_lengths: not needed; the padding says it.
        Returns:
            A dictionary: ``encoder_out``, B x S x C, the source's share of the grid's first
            features; ``encoder_padding_mask``, B x S or None; ``beam_size``, 1 (see
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
            "beam_size": 1,
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
        layers: DecoderStack | None,
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
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_attn: bool | None = None,
        words: Tensor | None = None,
        **unused,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """The decoder's output before the words' scores.

        Args:
            prev_output_tokens: B x T, the whole prefix.
            encoder_out: the encoder's dictionary.
            incremental_state: holds what earlier steps left; only the positions after them are
                computed then.
            need_attn: whether to return alignments; None for ``self.need_attn``.
            words: B x T, the words whose alignments are wanted, those of a reference for example;
                None for the word that scores best at each position.
        Returns:
            B x T x E' and ``{"attn": [weights B x T x S]}``, of equations 7 and 8 (None instead of
            weights if they are not needed).
        """
        state = self.state(incremental_state)
        start = 0 if state is None else state.length
        padding = prev_output_tokens.eq(self.dictionary.pad())
        if self.layers is None:
            x = self.embed(prev_output_tokens, padding, start)
        else:
            source = Source({}, beam_size=encoder_out["beam_size"])
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
        if not (self.need_attn if need_attn is None else need_attn):
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


@register_model(MODEL, dataclass=PervasiveConfig)
class PervasiveModel(PluginModel):
    """Pervasive attention (Elbayad et al. 2018)."""

    @classmethod
    def build_model(cls, cfg: PervasiveConfig, task) -> "PervasiveModel":
        """Build the model that a configuration describes.

        Args:
            cfg: the options above.
            task: a translation task, with a source and a target dictionary.
        Raises:
            UserError: where options do not fit together.
        """
        fill_defaults(cfg, BASE)
        embedding, convolution, prediction = check_options(cfg, task)
        source_words, target_words = build_embeddings(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim
        )
        keep_definitions(cfg)
        source, target = read_sides(cfg)
        dims = (
            source.width if source else cfg.encoder_embed_dim,
            target.width if target else cfg.decoder_embed_dim,
        )
        network = PervasiveAttention(
            *dims,
            num_layers=cfg.num_layers,
            growth_rate=cfg.growth_rate,
            kernel_size=cfg.kernel_size,
            bottleneck=cfg.bottleneck,
            aggregator_name=cfg.aggregator,
            gated=cfg.gated,
            conv_dropout=convolution,
            output_dropout=prediction,
            halve_input=not cfg.no_halving,
            transition=not cfg.no_transition,
            project=not cfg.separate_output,
            output_dim=cfg.decoder_embed_dim,
            share_statistics=not cfg.local_statistics,
        )
        # The matrix E of equation 4: the target's table of words, or one of its own.
        output = TiedOutput(target_words)
        if cfg.separate_output:
            output = Output(network.out_channels, len(task.target_dictionary))
        encoder = PervasiveEncoder(
            task.source_dictionary,
            Embedding(source_words, None, embedding),
            EncoderStack(source) if source else None,
            source_projection(*dims, halve=not cfg.no_halving),
            max_positions(cfg.max_source_positions),
        )
        decoder = PervasiveDecoder(
            task.target_dictionary,
            Embedding(target_words, None, embedding),
            DecoderStack(target) if target else None,
            network,
            output,
            max_positions(cfg.max_target_positions),
        )
        return cls(encoder, decoder)


def read_sides(cfg: PervasiveConfig) -> tuple[StackSpec | None, StackSpec | None]:
    """The layers between embeddings and grid, of the source and of the target.

    Raises:
        UserError: where a definition is wrong.
    """
    sides = []
    for side, width in ((ENCODER, cfg.encoder_embed_dim), (DECODER, cfg.decoder_embed_dim)):
        name = f"{side}_adl"
        if getattr(cfg, name) is None:
            sides.append(None)
            continue
        settings = layer_settings(cfg, width)
        text = getattr(cfg, name)
        sides.append(resolve_side(text, side, settings, cfg.adl_dialect, DEFINITIONS[name]))
    return tuple(sides)


register_architectures(
    MODEL, PervasiveConfig, BASE, {name: row.options for name, row in ARCHITECTURES.items()}
)
