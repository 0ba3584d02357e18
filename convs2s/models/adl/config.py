"""The command-line options of models in ADL, and the definitions that checkpoints keep."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import OmegaConf

from ..base import AlignmentOptions, EmbeddingOptions, max_length_or_default
from .language.parser import parse
from .language.resolve import DIALECTS
from .language.spec import Settings
from .language.tree import write

MODEL = "adl"
BASE = {
    "adl_dialect": "paper",
    "model_dim": Settings.model_dim,
    "attention_heads": Settings.attention_heads,
    "dropout": Settings.dropout,
    "init_gain": 1.0,
}

DEFINITIONS = {"encoder_adl": "--encoder-adl", "decoder_adl": "--decoder-adl"}


@dataclass
class LayerOptions(FairseqDataclass):
    """Definitions in ADL, and defaults for their layers."""

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
        default=None, metadata={"help": f"dialect of both definitions: {' or '.join(DIALECTS)}"}
    )
    ff_dim: Optional[int] = field(
        default=None,
        metadata={"help": "inner channels of ffl (default: 4 times the channels of its input)"},
    )
    attention_heads: Optional[int] = field(
        default=None, metadata={"help": "heads of multi-head attention in ADL"}
    )
    attention_dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout on attention weights (default: --dropout)"}
    )


@dataclass
class AdlConfig(LayerOptions, AlignmentOptions, EmbeddingOptions):
    """The options of models in ADL; None stands for the value of the named architecture."""

    alignment_heads: Optional[int] = field(
        default=None,
        metadata={
            "help": "the alignment is the mean of this many heads, the first ones of each layer "
            "(default: of all)"
        },
    )
    model_dim: Optional[int] = field(
        default=None,
        metadata={"help": "channels of the embeddings, and of layers without a given width"},
    )
    dropout: Optional[float] = field(
        default=None, metadata={"help": "dropout of layers without a given probability"}
    )
    input_feeding: Optional[bool] = field(
        default=None,
        metadata={
            "help": "concatenate the decoder's previous output with the embedding of the previous "
            "token (Luong et al. 2015)"
        },
    )
    init_gain: Optional[float] = field(
        default=None,
        metadata={"help": "factor of initial weights, which follow Glorot and Bengio (xavier)"},
    )
    share_input_output_embed: bool = field(
        default=False, metadata={"help": "tie the output layer to the target embeddings"}
    )


def layer_settings(cfg, width: int) -> Settings:
    """The defaults that the options give to layers.

    Args:
        cfg: options of ``LayerOptions`` and ``EmbeddingOptions``, and ``dropout``.
        width: channels of the input of the first layer.
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
    """Replace ``@file`` in definitions by the text of the file, so that checkpoints contain it.

    ``cfg`` is a copy of the configuration that fairseq saves; this function changes the latter.

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
