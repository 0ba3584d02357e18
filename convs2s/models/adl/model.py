"""Models in the Architecture Definition Language (Domhan 2018)."""

import logging
from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from ...common.errors import UserError
from ...common.limits import MAX_INIT_GAIN, check_range
from ...nn.attention import MEAN_ALIGNMENT, Alignment
from ...nn.attention_maps import AttentionMaps
from ...nn.embedding import Embedding
from ...nn.output import OutputProjection, TiedOutputProjection
from ...nn.state import State
from ..base import (
    Architecture,
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embedding_matrices,
    check_alignment_layer,
    check_shared_embeddings,
    check_types,
    fill_defaults,
    register_architectures,
)
from .architectures import ARCHITECTURES
from .config import BASE, DEFINITIONS, MODEL, AdlConfig, keep_definitions, layer_settings
from .context import Source
from .language.registry import layer_type
from .language.resolve import resolve
from .language.spec import LayerSpec, ModelSpec, StackSpec
from .stacks import DecoderStack, EncoderStack

logger = logging.getLogger(__name__)


class AdlEncoder(PluginEncoder):
    """Embedding and the layers of the encoder.

    Args:
        dictionary: source dictionary.
        embed: source embedding.
        spec: the resolved layers.
        blocks: numbers of the encoder blocks that the decoder attends to.
        max_length: the largest number of tokens in a source sentence, end of sentence included.
    """

    has_attention_maps = True
    refuses_empty = True

    def __init__(
        self, dictionary, embed: Embedding, spec: StackSpec, blocks: list[int], max_length: int
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = EncoderStack(spec, blocks)

    def encode(
        self, tokens: Tensor, padding_mask: Tensor, maps: AttentionMaps | None = None
    ) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            tokens: B x S token indices.
            padding_mask: B x S, True at padding.
            maps: to which the weights of self-attention layers are added, or None.
        Returns:
            A dictionary of tensors with one row per sentence, whose padding follows its tokens:
            ``encoder_out``, B x S x C; ``block0``, ``block1``, ... if the decoder attends to
            other blocks than the topmost; ``encoder_padding_mask``, B x S or None; and
            ``encoder_columns``, B x S, the new column of each column of ``tokens`` (None if all
            stay where they are).
        """
        x, blocks, padding_order = self.layers(self.embed, tokens, padding_mask, maps)
        return {
            "encoder_out": x,
            **{f"block{number}": block for number, block in blocks.items()},
            "encoder_padding_mask": padding_order.padding_mask,
            "encoder_columns": padding_order.inverse,
        }


class AdlDecoder(PluginDecoder):
    """Embedding, the layers of the decoder, and the output layer.

    Args:
        dictionary: target dictionary.
        embed: target embedding.
        spec: the resolved layers.
        blocks: numbers of the encoder blocks that the layers attend to.
        output: the output layer.
        input_feeding: whether the input is the embedding of the previous token concatenated with
            the previous output (section 2.4).
        max_length: the largest number of tokens in a target sentence, end of sentence included.
        alignment: the layer and the heads whose attention is the alignment (default: the mean of
            all).
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        spec: StackSpec,
        blocks: list[int],
        output: nn.Module,
        input_feeding: bool,
        max_length: int,
        alignment: Alignment = MEAN_ALIGNMENT,
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = DecoderStack(spec, input_feeding)
        self.blocks = blocks
        self.output = output
        self.alignment = alignment

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
        maps: AttentionMaps | None = None,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
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
            alignment_heads: the number of its heads (default: that of the model).
        Returns:
            Features R x T x C, and attention weights R x T x S averaged over these layers and
            heads (None if they are not needed, or if no layer attends to the source).
        """
        return self.layers(
            self.embed,
            tokens,
            padding_mask,
            self.source(encoder_out),
            state,
            need_attn,
            maps,
            self.alignment.replaced_by(alignment_layer, alignment_heads),
        )

    def source(self, encoder_out: dict[str, Any]) -> Source:
        """The part of the encoder's dictionary that layers attend to."""
        top = encoder_out["encoder_out"]
        return Source(
            {block: encoder_out.get(f"block{block}", top) for block in self.blocks},
            encoder_out["encoder_padding_mask"],
            encoder_out["beam_size"],
            encoder_out["encoder_columns"],
        )


@register_model(MODEL, dataclass=AdlConfig)
class AdlModel(PluginModel):
    """An encoder and a decoder that are written in ADL (Domhan 2018)."""

    @classmethod
    def build_model(cls, cfg: AdlConfig, task) -> "AdlModel":
        """Build the model that two definitions describe.

        Args:
            cfg: the options.
            task: a translation task with a source and a target dictionary.
        Raises:
            TextError: a definition is wrong; the error shows the place.
            UserError: an option is out of range, or options contradict each other.
        """
        check_types(cfg, AdlConfig)
        fill_defaults(cfg, BASE)
        spec = resolve_model(cfg)
        for warning in spec.warnings:
            logger.warning(warning)
        keep_definitions(cfg)
        check_shared_embeddings(cfg, task)
        dim = cfg.model_dim
        source_matrix, target_matrix = build_embedding_matrices(cfg, task, dim, dim, std=dim**-0.5)
        output = build_output(cfg, spec, target_matrix)
        attending = [layer for layer in spec.decoder.walk() if layer_type(layer).attends]
        blocks = sorted({layer["block"] for layer in attending})
        encoder = AdlEncoder(
            task.source_dictionary,
            Embedding(source_matrix, None),
            spec.encoder,
            blocks,
            spec.settings.max_source_positions,
        )
        decoder = AdlDecoder(
            task.target_dictionary,
            Embedding(target_matrix, None),
            spec.decoder,
            blocks,
            output,
            spec.input_feeding,
            spec.settings.max_target_positions,
            alignment_of(cfg, attending),
        )
        scale_weights_(encoder.layers, cfg.init_gain)
        scale_weights_(decoder.layers, cfg.init_gain)
        return cls(encoder, decoder)


def resolve_model(cfg: AdlConfig) -> ModelSpec:
    """The specification that the options describe.

    Raises:
        UserError: a definition is missing or wrong, or an option is out of range.
    """
    check_range("--init-gain", cfg.init_gain, 0, MAX_INIT_GAIN)
    missing = [option for name, option in DEFINITIONS.items() if not getattr(cfg, name)]
    if missing:
        raise UserError(
            f"--arch adl needs {' and '.join(missing)}: a chain of layers, which `convs2s adl "
            "layers` lists. Named architectures have both: `convs2s adl list` prints them."
        )
    return resolve(
        cfg.encoder_adl,
        cfg.decoder_adl,
        layer_settings(cfg, cfg.model_dim),
        cfg.adl_dialect,
        bool(cfg.input_feeding),
    )


def alignment_of(cfg: AdlConfig, attending: list[LayerSpec]) -> Alignment:
    """The layer and the heads whose attention is the alignment.

    Args:
        cfg: the options.
        attending: the decoder layers that attend to the source.
    Raises:
        UserError: there is no such layer, or a layer has fewer heads.
    """
    check_alignment_layer(cfg.alignment_layer, len(attending))
    if cfg.alignment_heads is not None:
        layers = attending if cfg.alignment_layer is None else [attending[cfg.alignment_layer]]
        heads = min((layer.arguments.get("h", 1) for layer in layers), default=0)
        if not 1 <= cfg.alignment_heads <= heads:
            raise UserError(
                f"--alignment-heads is {cfg.alignment_heads}, but the attention of the alignment "
                f"has {heads} heads: give a number from 1 to {heads}, or leave the option out."
            )
    return Alignment(cfg.alignment_layer, cfg.alignment_heads)


def build_output(cfg: AdlConfig, spec: ModelSpec, target_matrix: nn.Embedding) -> nn.Module:
    """The output layer: tied to the target embeddings, or with weights of its own.

    Raises:
        UserError: it must be tied, but the decoder is not as wide as the embeddings.
    """
    width = spec.decoder.width
    if not (cfg.share_input_output_embed or cfg.share_all_embeddings):
        return OutputProjection(width, target_matrix.num_embeddings)
    if width != cfg.model_dim:
        raise UserError(
            f"The decoder outputs {width} channels and --model-dim is {cfg.model_dim}, but the "
            "output layer can be tied to the target embeddings only if both are the same: end the "
            f"decoder with 'linear({cfg.model_dim})', for example."
        )
    return TiedOutputProjection(target_matrix)


@torch.no_grad()
def scale_weights_(layers: nn.Module, gain: float) -> None:
    """Multiply the initial weights of layers by a factor; biases and vectors stay."""
    if gain != 1.0:
        for parameter in layers.parameters():
            if parameter.dim() > 1:
                parameter.mul_(gain)


register_architectures(
    MODEL,
    AdlConfig,
    BASE,
    {
        name: Architecture(
            {"encoder_adl": row.encoder, "decoder_adl": row.decoder, **row.options}, row.source
        )
        for name, row in ARCHITECTURES.items()
    },
)
