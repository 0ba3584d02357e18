"""Options of networks: plain dataclasses, the named sets of their values, and checks."""

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.limits import MAX_POSITIONS, check_range, option_name
from ..common.lines import excerpt


def option(default: Any, help: str) -> Any:
    """A field of an option dataclass.

    Args:
        default: the value of the base architecture of the family.
        help: one line for ``--help``.
    """
    return field(default=default, metadata={"help": help})


@dataclass
class NetworkOptions:
    """The options that every network has; a family derives its own from them."""

    share_all_embeddings: bool = option(
        False,
        "use one matrix for source embeddings, target embeddings and output layer (needs data "
        "preprocessed with --joined-dictionary)",
    )
    max_source_positions: int = option(1024, "largest number of tokens in the source sequence")
    max_target_positions: int = option(1024, "largest number of tokens in the target sequence")
    right_to_left: bool = option(
        False,
        "predict the last target token first; an ensemble of models of both directions lets each "
        "score what the others found",
    )

    def check(self) -> None:
        """Check that options are in range and do not contradict each other.

        Raises:
            UserError: if they are out of range, or contradict each other.
        """
        for name in ("max_source_positions", "max_target_positions"):
            check_range(option_name(name), getattr(self, name), 1, MAX_POSITIONS)


@dataclass
class AlignmentOptions(NetworkOptions):
    """The attention that is the alignment, for training with alignments and for printing them."""

    alignment_layer: int | None = option(
        None,
        "decoder layer whose attention is the alignment, counted from 0 at the bottom among the "
        "layers that attend to the source (default: the mean of all of them)",
    )

    def check_alignment_layer(self, num_layers: int) -> None:
        """Check ``alignment_layer``.

        Args:
            num_layers: the number of decoder layers that attend to the source.
        Raises:
            UserError: if there is no such layer.
        """
        layer = self.alignment_layer
        if layer is None or 0 <= layer < num_layers:
            return
        if num_layers == 0:
            raise UserError(
                f"--alignment-layer is {layer}, but no layer of the decoder attends to the source: "
                "omit the option."
            )
        raise UserError(
            f"--alignment-layer is {layer}, but the decoder has {num_layers} layers that attend to "
            f"the source: give a number from 0 (the bottom one) to {num_layers - 1}."
        )


class Architecture(NamedTuple):
    """A named architecture.

    Attributes:
        options: the options that differ from the defaults of the family.
        source: where they come from, such as a section of a paper, for tables of architectures.
    """

    options: dict[str, Any]
    source: str = ""


def kind_of(annotation: Any) -> type:
    """The type of an option's values, without the None that may represent a default."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    found: type = annotation
    return found


def checked_values(options: type, look_up: Callable[[str], Any]) -> dict[str, Any]:
    """The values of options, such as those of a checkpoint, which may be damaged.

    Args:
        options: the dataclass.
        look_up: a function from the name of an option to its value; None means the default, and
            so does an interpolation ("${...}") that is not resolved.
    Returns:
        The values that are not defaults, by name.
    Raises:
        UserError: if a value's type is not that of its field.
    """
    found = {}
    for each in fields(options):
        value = look_up(each.name)
        if value is not None and not (isinstance(value, str) and value.startswith("${")):
            found[each.name] = checked_value(each.name, kind_of(each.type), value)
    return found


def checked_value(name: str, kind: type, value: Any) -> Any:
    """A value of an option, with the type of the option."""
    if kind is bool:
        if str(value) in ("True", "False", "0", "1"):
            return str(value) in ("True", "1")
        allowed = "True or False"
    elif kind in (int, float):
        if isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool):
            return kind(value)
        allowed = "an integer" if kind is int else "a number"
    elif name.endswith("_embed_path"):
        if isinstance(value, str):
            return value
        allowed = "the name of a file"
    else:
        return value if kind is not str else str(value)
    raise UserError(
        f"{option_name(name)} is {excerpt(str(value))}, but must be {allowed}; if the option is "
        "from a checkpoint, the checkpoint is damaged."
    )
