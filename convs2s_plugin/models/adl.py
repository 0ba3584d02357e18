"""Models written in the Architecture Definition Language (Domhan 2018)."""

import logging
from dataclasses import dataclass, field
from typing import Optional

import torch
from fairseq.models import register_model

from ..adl.architectures import ARCHITECTURES
from ..adl.recipe import Recipe
from ..adl.registry import layer_type
from ..adl.resolve import resolve
from ..errors import UserError
from ..modules.embedding import Embedding
from ..modules.output import Output, TiedOutput
from .adl_definitions import DEFINITIONS, keep_definitions, layer_settings
from .adl_sides import AdlDecoder, AdlEncoder
from .base import PluginModel, check_sharing, word_tables
from .named import complete, register_architectures
from .options import LayersConfig, WordsConfig

logger = logging.getLogger(__name__)

MODEL = "adl"
BASE = {
    "adl_dialect": "paper",
    "model_dim": 512,
    "attention_heads": 8,
    "dropout": 0.1,
    "init_gain": 1.0,
}


@dataclass
class AdlConfig(LayersConfig, WordsConfig):
    """The options of models in ADL; None means what the architecture says."""

    model_dim: Optional[int] = field(
        default=None, metadata={"help": "width of embeddings and of layers that do not say theirs"}
    )
    dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of layers that do not say theirs"}
    )
    input_feeding: Optional[bool] = field(
        default=None,
        metadata={"help": "the decoder reads its last output beside the word (Luong et al. 2015)"},
    )
    init_gain: Optional[float] = field(
        default=None,
        metadata={"help": "factor of initial weights, which follow Glorot and Bengio (xavier)"},
    )
    share_input_output_embed: bool = field(
        default=False, metadata={"help": "score words with the target embeddings"}
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
        complete(cfg, BASE)
        recipe = read_recipe(cfg)
        for warning in recipe.warnings:
            logger.warning(warning)
        keep_definitions(cfg)
        check_sharing(cfg, task)
        tied = cfg.share_input_output_embed or cfg.share_all_embeddings
        if tied and recipe.decoder.width != cfg.model_dim:
            raise UserError(
                f"The decoder gives {recipe.decoder.width} channels and --model-dim is "
                f"{cfg.model_dim}, but words can be scored with the target embeddings only where "
                f"both are the same: end the decoder with 'linear({cfg.model_dim})', for example."
            )
        dim = cfg.model_dim
        source_words, target_words = word_tables(cfg, task, dim, dim, std=dim**-0.5)
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


def read_recipe(cfg: AdlConfig) -> Recipe:
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
