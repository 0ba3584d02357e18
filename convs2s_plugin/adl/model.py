"""Models written in the Architecture Definition Language (Domhan 2018)."""

import logging
from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from ..base import (
    PluginDecoder,
    PluginEncoder,
    PluginModel,
    build_embedding_matrices,
    check_shared_embeddings,
    fill_defaults,
    register_architectures,
)
from ..decoding.state import State
from ..errors import UserError
from ..nn.embedding import Embedding
from ..nn.output import Output, TiedOutput
from .architectures import ARCHITECTURES
from .config import BASE, DEFINITIONS, MODEL, AdlConfig, keep_definitions, layer_settings
from .context import Source
from .language.registry import layer_type
from .language.resolve import resolve
from .language.spec import ModelSpec, StackSpec
from .stacks import DecoderStack, EncoderStack

logger = logging.getLogger(__name__)


class AdlEncoder(PluginEncoder):
    """Embeddings and the layers of one chain.

    Args:
        dictionary: of the source.
        embed: its word vectors.
        side: the resolved chain.
        blocks: numbers of the blocks that the decoder attends to.
        max_length: tokens of the longest source, end of sentence included.
    """

    def __init__(
        self, dictionary, embed: Embedding, side: StackSpec, blocks: list[int], max_length: int
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = EncoderStack(side, blocks)

    def encode(self, tokens: Tensor, padding_mask: Tensor) -> dict[str, Any]:
        """Encode a batch of source sentences.

        Args:
            tokens: B x S token indices.
            padding_mask: B x S, True at padding.
        Returns:
            A dictionary of tensors whose rows are sentences with their padding behind them:
            ``encoder_out``, B x S x C; ``block0``, ``block1``, ... if the decoder attends to
            others than the topmost; ``encoder_padding_mask``, B x S or None; and
            ``encoder_places``, B x S, where the columns of ``tokens`` have gone (None: nowhere).
        """
        x, blocks, words = self.layers.encode(self.embed, tokens, padding_mask)
        return {
            "encoder_out": x,
            **{f"block{number}": block for number, block in blocks.items()},
            "encoder_padding_mask": words.mask,
            "encoder_places": words.places,
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
        max_length: tokens of the longest target, end of sentence included.
    """

    def __init__(
        self,
        dictionary,
        embed: Embedding,
        side: StackSpec,
        blocks: list[int],
        output: nn.Module,
        input_feeding: bool,
        max_length: int,
    ):
        super().__init__(dictionary, embed, max_length)
        self.layers = DecoderStack(side, input_feeding)
        self.blocks = blocks
        self.output = output

    def decode(
        self,
        tokens: Tensor,
        padding_mask: Tensor,
        encoder_out: dict[str, Any],
        state: State | None,
        need_attn: bool,
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
        Returns:
            Features R x T x C, and the attention weights R x T x S averaged over the layers that
            attend (None if they are not needed or no layer attends).
        """
        features, attention = self.layers.decode(
            self.embed, tokens, padding_mask, self.source(encoder_out), state, need_attn
        )
        places = encoder_out["encoder_places"]
        if attention is not None and places is not None:
            by_sentence = attention.view(len(places), -1, places.size(1))
            places = places.unsqueeze(1).expand(-1, by_sentence.size(1), -1)
            attention = by_sentence.gather(2, places).view_as(attention)
        return features, attention

    def source(self, encoder_out: dict[str, Any]) -> Source:
        """What layers attend to, from the encoder's dictionary."""
        top = encoder_out["encoder_out"]
        return Source(
            {block: encoder_out.get(f"block{block}", top) for block in self.blocks},
            encoder_out["encoder_padding_mask"],
            encoder_out["beam_size"],
        )


@register_model(MODEL, dataclass=AdlConfig)
class AdlModel(PluginModel):
    """An encoder and a decoder written in ADL (Domhan 2018)."""

    @classmethod
    def build_model(cls, cfg: AdlConfig, task) -> "AdlModel":
        """Build the model that two definitions describe.

        Args:
            cfg: the options above.
            task: a translation task, with a source and a target dictionary.
        Raises:
            TextError: at the place in a definition that is wrong.
            UserError: where options do not fit together.
        """
        fill_defaults(cfg, BASE)
        recipe = read_recipe(cfg)
        for warning in recipe.warnings:
            logger.warning(warning)
        keep_definitions(cfg)
        check_shared_embeddings(cfg, task)
        tied = cfg.share_input_output_embed or cfg.share_all_embeddings
        if tied and recipe.decoder.width != cfg.model_dim:
            raise UserError(
                f"The decoder gives {recipe.decoder.width} channels and --model-dim is "
                f"{cfg.model_dim}, but words can be scored with the target embeddings only where "
                f"both are the same: end the decoder with 'linear({cfg.model_dim})', for example."
            )
        dim = cfg.model_dim
        source_words, target_words = build_embedding_matrices(cfg, task, dim, dim, std=dim**-0.5)
        output = TiedOutput(target_words)
        if not tied:
            output = Output(recipe.decoder.width, len(task.target_dictionary))
        attending = [layer for layer in recipe.decoder.walk() if layer_type(layer).attends]
        blocks = sorted({layer["block"] for layer in attending})
        settings = recipe.settings
        model = cls(
            AdlEncoder(
                task.source_dictionary,
                Embedding(source_words, None),
                recipe.encoder,
                blocks,
                settings.max_source_positions,
            ),
            AdlDecoder(
                task.target_dictionary,
                Embedding(target_words, None),
                recipe.decoder,
                blocks,
                output,
                recipe.input_feeding,
                settings.max_target_positions,
            ),
        )
        scale_weights_(model, cfg.init_gain)
        return model


def read_recipe(cfg: AdlConfig) -> ModelSpec:
    """The recipe that the options describe.

    Raises:
        UserError: where a definition is missing or wrong.
    """
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


@torch.no_grad()
def scale_weights_(model: AdlModel, gain: float) -> None:
    """Multiply the initial weights of all layers by a factor; embeddings and output stay."""
    if gain != 1.0:
        for side in (model.encoder, model.decoder):
            for parameter in side.layers.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(gain)


register_architectures(
    MODEL,
    AdlConfig,
    BASE,
    {
        name: {"encoder_adl": row.encoder, "decoder_adl": row.decoder, **row.options}
        for name, row in ARCHITECTURES.items()
    },
)
