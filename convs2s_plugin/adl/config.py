"""The options of models in ADL, and what checkpoints keep of their definitions."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import OmegaConf

from ..base import EmbeddingOptions, max_length_or_default
from .language.parser import parse
from .language.resolve import DIALECTS
from .language.spec import Settings
from .language.tree import write

MODEL = "adl"
BASE = {
    "adl_dialect": "paper",
    "model_dim": 512,
    "attention_heads": 8,
    "dropout": 0.1,
    "init_gain": 1.0,
}

DEFINITIONS = {"encoder_adl": "--encoder-adl", "decoder_adl": "--decoder-adl"}


@dataclass
class LayerOptions(FairseqDataclass):
    """Definitions in ADL, and what they leave to the model's options."""

    encoder_adl: Optional[str] = field(
        default=None,
        metadata={
            "help": "layers in ADL on the source side, e.g. 'pos -> repeat(6, res_nd(rnn) -> "
            "res_nd(ffl)) -> norm'; @FILE reads a definition from a file"
        },
    )
    decoder_adl: Optional[str] = field(
        default=None, metadata={"help": "layers in ADL on the target side"}
    )
    adl_dialect: Optional[str] = field(
        default=None, metadata={"help": f"of both definitions: {' or '.join(DIALECTS)}"}
    )
    ff_dim: Optional[int] = field(
        default=None, metadata={"help": "inner width of ffl (default: 4 times its input's)"}
    )
    attention_heads: Optional[int] = field(
        default=None, metadata={"help": "heads of attention layers that do not say theirs"}
    )
    attention_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of attention weights (default: --dropout)"}
    )


@dataclass
class AdlConfig(LayerOptions, EmbeddingOptions):
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


def layer_settings(cfg, width: int) -> Settings:
    """What a model's options say about every layer that says nothing else.

    Args:
        cfg: options of ``LayerOptions`` and ``EmbeddingOptions``, and ``dropout``.
        width: channels of what goes into the first layer.
    """
    return Settings(
        width,
        cfg.ff_dim,
        cfg.attention_heads,
        cfg.dropout,
        cfg.attention_dropout,
        max_length_or_default(cfg.max_source_positions),
        max_length_or_default(cfg.max_target_positions),
    )


def keep_definitions(cfg) -> None:
    """Let checkpoints hold what ``@file`` stood for, so that they can be loaded anywhere.

    fairseq saves the configuration that this one is a copy of.

    Args:
        cfg: a model's options; a definition may be None.
    """
    saved = cfg._get_parent() if OmegaConf.is_config(cfg) else None
    if saved is None or "model" not in saved:
        return
    for name, option in DEFINITIONS.items():
        text = getattr(cfg, name)
        if text and "@" in text:
            saved.model[name] = write(parse(text, option))
