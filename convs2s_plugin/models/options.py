"""Options that more than one family has."""

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ..adl.resolve import DIALECTS


@dataclass
class WordsConfig(FairseqDataclass):
    """Tables of words, and how long sentences may be."""

    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pre-trained source word vectors"}
    )
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pre-trained target word vectors"}
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "one table for source, target and scores (needs --joined-dictionary data)"
        },
    )
    max_source_positions: Optional[int] = II("task.max_source_positions")
    max_target_positions: Optional[int] = II("task.max_target_positions")


@dataclass
class LayersConfig(FairseqDataclass):
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
