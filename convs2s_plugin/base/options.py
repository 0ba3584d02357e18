"""Options of all families."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

DEFAULT_MAX_POSITIONS = 1024


@dataclass
class EmbeddingOptions(FairseqDataclass):
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


def max_positions(value: Any) -> int:
    """A limit on positions from a configuration, where it may still be an interpolation."""
    return value if isinstance(value, int) else DEFAULT_MAX_POSITIONS
