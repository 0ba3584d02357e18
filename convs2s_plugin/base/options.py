"""Options that all families share."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ..limits import MAX_POSITIONS, check_range, option_name

DEFAULT_MAX_POSITIONS = 1024


@dataclass
class EmbeddingOptions(FairseqDataclass):
    """Options of embedding matrices, and the maximum lengths of sentences."""

    encoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pre-trained source embeddings"}
    )
    decoder_embed_path: Optional[str] = field(
        default=None, metadata={"help": "file of pre-trained target embeddings"}
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "use one matrix for source embeddings, target embeddings and output layer "
            "(needs data preprocessed with --joined-dictionary)"
        },
    )
    max_source_positions: Optional[int] = II("task.max_source_positions")
    max_target_positions: Optional[int] = II("task.max_target_positions")


def check_lengths(cfg: Any) -> None:
    """Check the maximum lengths of sentences.

    Args:
        cfg: options of ``EmbeddingOptions``.
    Raises:
        UserError: if one is out of range.
    """
    for name in ("max_source_positions", "max_target_positions"):
        check_range(option_name(name), max_length_or_default(getattr(cfg, name)), 1, MAX_POSITIONS)


def max_length_or_default(value: Any) -> int:
    """A maximum length from the options, or the default if it is missing or not yet resolved.

    Args:
        value: ``max_source_positions`` or ``max_target_positions`` of ``EmbeddingOptions``.
    """
    return value if isinstance(value, int) else DEFAULT_MAX_POSITIONS
