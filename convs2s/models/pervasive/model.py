"""Pervasive attention (Elbayad et al. 2018): one masked 2-D DenseNet over source and target."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor

from ...nn.attention_maps import CONTRIBUTIONS, SOURCE, AttentionMaps
from ...nn.embedding import Embedding
from ...nn.int8 import dense
from ...nn.output import OutputProjection, TiedOutputProjection
from ...nn.state import State, child
from ..adl.config import DEFINITIONS, keep_definitions, layer_settings
from ..adl.context import Source
from ..adl.language.resolve import resolve_stack
from ..adl.language.spec import DECODER, ENCODER, StackSpec
from ..adl.stacks import DecoderStack, EncoderStack
from ..base import (
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embedding_matrices,
    check_types,
    fill_defaults,
    max_length_or_default,
    register_architectures,
)
from .architectures import ARCHITECTURES, BASE, MODEL
from .config import (
    PervasiveConfig,
    build_network_config,
    check_options,
    dropout_probability,
)
from .grid_projection import GridProjection, source_projection
from .network import GridFeatures, PervasiveAttention

# Why layers before the grid cannot attend to the source, for error messages.
NO_SOURCE = {
    ENCODER: "this is the encoder itself",
    DECODER: "here the grid does that, and the layers before it see the target alone",
}

# Initial embeddings are as small as those of the authors' code. Their size decides how fast the
# tied output layer and the first convolution learn.
EMBEDDING_STD = 0.01

# Positions whose logits are computed at a time if only the most probable tokens are needed.
CHUNK = 1024


class PervasiveEncoder(PluginEncoder):
    """Source embeddings, optional layers in ADL, and the source projection of the grid.

    Args:
        dictionary: the source dictionary.
        embed: the source embeddings.
        layers: the layers between the embeddings and the grid, or None.
        share: the source projection.
        max_length: the maximum source length in tokens, end of sentence included.
        no_eos: whether to treat the end of a sentence as padding.
    """

    has_attention_maps = True

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        layers: EncoderStack | None,
        share: GridProjection,
        max_length: int,
        no_eos: bool = False,
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = layers
        self.share = share
        self.no_eos = no_eos

    def encode(
        self, tokens: Tensor, padding_mask: Tensor, maps: AttentionMaps | None = None
    ) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            tokens: B x S token indices.
            padding_mask: B x S, True at padding.
            maps: to which the weights of self-attention layers are added, or None.
        Returns:
            A dictionary with ``encoder_out``, the source projection B x S x C, and
            ``encoder_padding_mask``, B x S, or None if there is no padding.
        """
        if self.no_eos:
            padding_mask = self._with_eos(tokens, padding_mask)
        if self.layers is None:
            x = self.embed(tokens, padding_mask)
        else:
            x, _, padding_order = self.layers(self.embed, tokens, padding_mask, maps)
            x = padding_order.restore(x)
        return {
            "encoder_out": self.share(x),
            "encoder_padding_mask": padding_mask if bool(padding_mask.any()) else None,
        }

    def _with_eos(self, tokens: Tensor, padding_mask: Tensor) -> Tensor:
        """The padding mask with ends of sentences, except that of an empty sentence."""
        ends = padding_mask | tokens.eq(self.dictionary.eos())
        return torch.where(ends.all(dim=1, keepdim=True), padding_mask, ends)


class PervasiveDecoder(PluginDecoder):
    """Target embeddings, optional layers in ADL, the network over the grid, and an output layer.

    Args:
        dictionary: the target dictionary.
        embed: the target embeddings.
        layers: the layers between the embeddings and the grid, or None.
        network: the network over the grid.
        output: the output layer, from features to logits.
        max_length: the maximum target length in tokens, end of sentence included.
        starts_with_bos: whether ``<s>`` replaces the ``</s>`` at the start of fairseq's targets.
    """

    aligns_tokens = True

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        layers: DecoderStack | None,
        network: PervasiveAttention,
        output: OutputProjection | TiedOutputProjection,
        max_length: int,
        starts_with_bos: bool = False,
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = layers
        self.network = network
        self.output = output
        self.starts_with_bos = starts_with_bos

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
        target_tokens: Tensor | None = None,
        maps: AttentionMaps | None = None,
        **unused,
    ) -> tuple[Tensor, Callable[[Tensor | None], Tensor] | None]:
        """Compute the input of the output layer.

        Args:
            tokens: R x T indices of the previous target tokens.
            padding_mask: R x T, True at padding.
            encoder_out: the encoder's dictionary.
            state: the incremental state, or None. If it is given, only the positions from
                ``state.length`` on are computed.
            need_attn: whether to return alignments.
            target_tokens: R x T, the tokens to align, for example those of a reference; None for
                the most probable token at each position.
            maps: to which the weights of each layer and each aggregator are added, or None.
        Returns:
            Features R x T x E', and a function from logits R x T x V (or None) to the alignments
            R x T x S of equations 7 and 8 (None if they are not needed).
        """
        start = 0 if state is None else state.length
        if self.starts_with_bos:
            tokens = tokens.masked_fill(tokens.eq(self.dictionary.eos()), self.dictionary.bos())
        if self.layers is None:
            x = self.embed(tokens, padding_mask, start)
        else:
            source = Source({}, beam_size=encoder_out["beam_size"])
            x, _ = self.layers(self.embed, tokens, padding_mask, source, state, maps=maps)
        features, grid_features = self.network(
            encoder_out["encoder_out"],
            x,
            encoder_out["encoder_padding_mask"],
            padding_mask[:, start:],
            child(state, "network"),
        )
        if not need_attn:
            return features, None

        def align(logits: Tensor | None) -> Tensor:
            if target_tokens is not None:
                aligned = target_tokens[:, start:]
            elif logits is not None:
                aligned = logits.argmax(dim=-1)
            else:
                aligned = self.most_probable_tokens(features)
            if maps is not None:
                self.add_maps(maps, grid_features, aligned)
            return self.alignment(grid_features, aligned)

        return features, align

    @torch.no_grad()
    def most_probable_tokens(self, features: Tensor) -> Tensor:
        """The most probable token at each position, R x T, of features R x T x E'."""
        chunks = features.flatten(0, 1).split(CHUNK)
        tokens = torch.cat([self.output(chunk).argmax(dim=-1) for chunk in chunks])
        return tokens.view(features.shape[:2])

    def alignment(self, features: GridFeatures, tokens: Tensor) -> Tensor:
        """The alignment of tokens R x T with the source, R x T x S."""
        return self.network.alignment(features, self.token_vectors(tokens))

    @torch.no_grad()
    def add_maps(self, maps: AttentionMaps, features: GridFeatures, tokens: Tensor) -> None:
        """Add the alignments of tokens R x T, and the contributions to their logits."""
        found = self.network.explain(features, self.token_vectors(tokens))
        for part in found:
            maps.add(SOURCE, part.alignment.unsqueeze(1), part.description, part.name)
        for part in found:
            contributions = part.contributions.unsqueeze(1)
            maps.add(CONTRIBUTIONS, contributions, "parts of the logit", part.name)

    def token_vectors(self, tokens: Tensor) -> Tensor:
        """The output layer's weight vectors of tokens R x T, R x T x E'."""
        return dense(self.output.weight_and_bias(tokens.flatten())[0]).view(*tokens.shape, -1)


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
        check_types(cfg, PervasiveConfig)
        fill_defaults(cfg, BASE)
        check_options(cfg, task)
        source_matrix, target_matrix = build_embedding_matrices(
            cfg, task, cfg.encoder_embed_dim, cfg.decoder_embed_dim, std=EMBEDDING_STD
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
        output: OutputProjection | TiedOutputProjection = TiedOutputProjection(target_matrix)
        if cfg.separate_output:
            output = OutputProjection(network.out_channels, len(task.target_dictionary))
        embedding_dropout = dropout_probability(cfg, "embedding_dropout")
        encoder = PervasiveEncoder(
            task.source_dictionary,
            Embedding(source_matrix, None, embedding_dropout),
            EncoderStack(source_layers) if source_layers else None,
            source_projection(network_config),
            max_length_or_default(cfg.max_source_positions),
            cfg.no_source_eos,
        )
        decoder = PervasiveDecoder(
            task.target_dictionary,
            Embedding(target_matrix, None, embedding_dropout),
            DecoderStack(target_layers) if target_layers else None,
            network,
            output,
            max_length_or_default(cfg.max_target_positions),
            cfg.target_bos,
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
    return resolve_stack(
        definition, side, settings, cfg.adl_dialect, DEFINITIONS[name], NO_SOURCE[side]
    )


register_architectures(MODEL, PervasiveConfig, BASE, ARCHITECTURES)
