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
from ..decoding.state import State, child
from ..nn.embedding import Embedding
from ..nn.output import Output, TiedOutput
from .architectures import ARCHITECTURES, BASE, MODEL
from .config import (
    PervasiveConfig,
    build_network_config,
    check_options,
    dropout_probability,
)
from .grid_projection import GridProjection, source_projection
from .network import GridFeatures, PervasiveAttention

# Positions whose logits are computed at a time if only the most probable tokens are needed.
CHUNK = 1024


class PervasiveEncoder(PluginEncoder):
    """Source embeddings, optional layers in ADL, and the source projection of the grid.

    Args:
        dictionary: the source dictionary.
        embed: the source embeddings.
        layers: the layers between the embeddings and the grid, or None.
        share: the source projection.
        longest: the maximum source length in tokens, end of sentence included.
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
        """Encode B x S tokens.

        Args:
            src_tokens: B x S token indices, padded on either side.
            src_lengths: unused; the lengths follow from the padding.
        Returns:
            A dictionary: ``encoder_out``, B x S x C, the source projection;
            ``encoder_padding_mask``, B x S, True at padding, or None; ``beam_size``, 1 (see
            decoding/state.py).
        """
        padding = src_tokens.eq(self.dictionary.pad())
        if self.layers is None:
            x = self.embed(src_tokens, padding)
        else:
            x, _, compacted = self.layers.encode(self.embed, src_tokens, padding)
            x = compacted.restore(x)
        return {
            "encoder_out": self.share(x),
            "encoder_padding_mask": padding if bool(padding.any()) else None,
            "beam_size": 1,
        }


class PervasiveDecoder(PluginDecoder):
    """Target embeddings, optional layers in ADL, the network over the grid, and an output layer.

    Args:
        dictionary: the target dictionary.
        embed: the target embeddings.
        layers: the layers between the embeddings and the grid, or None.
        network: the network over the grid.
        output: the output layer, from features to logits.
        longest: the maximum target length in tokens, end of sentence included.
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

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        need_attn: bool | None = None,
        target_tokens: Tensor | None = None,
        **unused,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Compute the logits of the next tokens and, if needed, their alignment with the source.

        Args:
            prev_output_tokens: R x T, the whole prefix.
            encoder_out: the encoder's dictionary.
            incremental_state: the state of incremental decoding, in which only new positions are
                computed; None for a full pass.
            features_only: whether to return the features before the output layer (False).
            need_attn: whether to return alignments; None for ``self.need_attn``.
            target_tokens: R x T, the tokens to align, for example those of a reference; None for
                the most probable token at each position.
        Returns:
            R x T x V, or R x T x E' with ``features_only``; and ``{"attn": [R x T x S]}``, the
            alignments of equations 7 and 8 (None if they are not needed).
        """
        state = self.state(incremental_state)
        start = 0 if state is None else state.length
        features, grid_features = self.run_network(prev_output_tokens, encoder_out, state)
        logits = None if features_only else self.output_layer(features, state=state)
        alignment = None
        if self.need_attn if need_attn is None else need_attn:
            if target_tokens is not None:
                tokens = target_tokens[:, start:]
            elif logits is not None:
                tokens = logits.argmax(dim=-1)
            else:
                tokens = self.most_probable_tokens(features)
            alignment = self.alignment(grid_features, tokens)
        return features if logits is None else logits, {"attn": [alignment]}

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict[str, Any] | None = None,
        **options,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """``forward`` with ``features_only``."""
        return self.forward(prev_output_tokens, encoder_out, incremental_state, True, **options)

    def run_network(
        self, prev_output_tokens: Tensor, encoder_out: dict[str, Any], state: State | None
    ) -> tuple[Tensor, GridFeatures]:
        """The features R x T x E' before the output layer, and the features of the grid."""
        start = 0 if state is None else state.length
        padding = prev_output_tokens.eq(self.dictionary.pad())
        if self.layers is None:
            x = self.embed(prev_output_tokens, padding, start)
        else:
            source = Source({}, beam_size=encoder_out["beam_size"])
            x, _ = self.layers.decode(self.embed, prev_output_tokens, padding, source, state)
        if state is not None:
            state.length = prev_output_tokens.size(1)
        return self.network(
            encoder_out["encoder_out"],
            x,
            encoder_out["encoder_padding_mask"],
            padding[:, start:],
            child(state, "network"),
        )

    @torch.no_grad()
    def most_probable_tokens(self, features: Tensor) -> Tensor:
        """The most probable token at each position, R x T, of features R x T x E'."""
        chunks = features.flatten(0, 1).split(CHUNK)
        tokens = torch.cat([self.output(chunk).argmax(dim=-1) for chunk in chunks])
        return tokens.view(features.shape[:2])

    @torch.no_grad()
    def alignment(self, features: GridFeatures, tokens: Tensor) -> Tensor:
        """The alignment of tokens R x T with the source, R x T x S."""
        vectors, _ = self.output.weight_and_bias(tokens.flatten())
        return self.network.alignment(features, vectors.view(*tokens.shape, -1))


@register_model(MODEL, dataclass=PervasiveConfig)
class PervasiveModel(PluginModel):
    """Pervasive attention (Elbayad et al. 2018)."""

    @classmethod
    def build_model(cls, cfg: PervasiveConfig, task) -> "PervasiveModel":
        """Build the model that a configuration describes.

        Args:
            cfg: the options.
            task: a translation task with a source and a target dictionary.
        Raises:
            UserError: if options are out of range or contradict each other.
        """
        fill_defaults(cfg, BASE)
        check_options(cfg, task)
        source_words, target_words = build_embeddings(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim
        )
        keep_definitions(cfg)
        source_layers = resolve_layers(cfg, ENCODER, cfg.encoder_embed_dim)
        target_layers = resolve_layers(cfg, DECODER, cfg.decoder_embed_dim)
        network_config = build_network_config(
            cfg,
            source_dim=source_layers.width if source_layers else cfg.encoder_embed_dim,
            target_dim=target_layers.width if target_layers else cfg.decoder_embed_dim,
        )
        network = PervasiveAttention(network_config)
        # The matrix E of equation 4: the target embeddings, or a matrix of its own.
        output = TiedOutput(target_words)
        if cfg.separate_output:
            output = Output(network.out_channels, len(task.target_dictionary))
        embedding_dropout = dropout_probability(cfg, "embedding_dropout")
        encoder = PervasiveEncoder(
            task.source_dictionary,
            Embedding(source_words, None, embedding_dropout),
            EncoderStack(source_layers) if source_layers else None,
            source_projection(network_config),
            max_positions(cfg.max_source_positions),
        )
        decoder = PervasiveDecoder(
            task.target_dictionary,
            Embedding(target_words, None, embedding_dropout),
            DecoderStack(target_layers) if target_layers else None,
            network,
            output,
            max_positions(cfg.max_target_positions),
        )
        return cls(encoder, decoder)


def resolve_layers(cfg: PervasiveConfig, side: str, embed_dim: int) -> StackSpec | None:
    """The layers in ADL between the embeddings and the grid on one side, or None.

    Args:
        cfg: the options.
        side: ENCODER or DECODER.
        embed_dim: channels of the side's embeddings.
    Raises:
        UserError: if the definition is wrong.
    """
    name = f"{side}_adl"
    definition = getattr(cfg, name)
    if definition is None:
        return None
    settings = layer_settings(cfg, embed_dim)
    return resolve_side(definition, side, settings, cfg.adl_dialect, DEFINITIONS[name])


register_architectures(
    MODEL, PervasiveConfig, BASE, {name: row.options for name, row in ARCHITECTURES.items()}
)
