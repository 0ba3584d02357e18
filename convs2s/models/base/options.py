"""Options that all families share."""

from dataclasses import dataclass, field, fields
from typing import Any, Optional, get_args

from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ...common.errors import UserError
from ...common.limits import MAX_POSITIONS, check_range, option_name
from ...common.text_files import excerpt

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


@dataclass
class AlignmentOptions(FairseqDataclass):
    """The attention that is the alignment, for training with alignments and for printing them."""

    alignment_layer: Optional[int] = field(
        default=None,
        metadata={
            "help": "decoder layer whose attention is the alignment, counted from 0 at the bottom "
            "among the layers that attend to the source (default: the mean of all of them)"
        },
    )


def check_alignment_layer(layer: int | None, num_layers: int) -> None:
    """Check ``--alignment-layer``.

    Args:
        layer: the value of the option.
        num_layers: the number of decoder layers that attend to the source.
    Raises:
        UserError: if there is no such layer.
    """
    if layer is None or 0 <= layer < num_layers:
        return
    if num_layers == 0:
        raise UserError(
            f"--alignment-layer is {layer}, but no layer of the decoder attends to the source: "
            "leave the option out."
        )
    raise UserError(
        f"--alignment-layer is {layer}, but the decoder has {num_layers} layers that attend to "
        f"the source: give a number from 0 (the bottom one) to {num_layers - 1}."
    )


def check_lengths(cfg: Any) -> None:
    """Check the maximum lengths of sentences.

    Args:
        cfg: options of ``EmbeddingOptions``.
    Raises:
        UserError: if one is out of range.
    """
    for name in ("max_source_positions", "max_target_positions"):
        check_range(option_name(name), max_length_or_default(getattr(cfg, name)), 1, MAX_POSITIONS)


def check_types(cfg: Any, options: type) -> None:
    """Check the types of numbers, flags and paths, which a damaged checkpoint may have wrong.

    Args:
        cfg: the options.
        options: their dataclass.
    Raises:
        UserError: if a value has another type than its field.
    """
    for each in fields(options):
        value = getattr(cfg, each.name, None)
        kind = next(iter(get_args(each.type)), each.type)
        if value is None or isinstance(value, str) and value.startswith("${"):
            continue
        if kind is bool and str(value) not in ("True", "False", "0", "1"):
            allowed = "True or False"
        elif kind in (int, float) and (
            isinstance(value, bool) or not isinstance(value, int if kind is int else int | float)
        ):
            allowed = "an integer" if kind is int else "a number"
        elif each.name.endswith("_embed_path") and not isinstance(value, str):
            allowed = "the name of a file"
        else:
            continue
        raise UserError(
            f"{option_name(each.name)} is {excerpt(str(value))}, but must be {allowed}; if the "
            "option is that of a checkpoint, the checkpoint is damaged."
        )


def max_length_or_default(value: Any) -> int:
    """A maximum length from the options, or the default if it is missing or not yet resolved.

    Args:
        value: ``max_source_positions`` or ``max_target_positions`` of ``EmbeddingOptions``.
    """
    return value if isinstance(value, int) else DEFAULT_MAX_POSITIONS
