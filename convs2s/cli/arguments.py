"""The kinds of options that most commands have."""

import argparse
from typing import Any


def add_flag(group: argparse._ActionsContainer, name: str, help: str) -> None:
    """Add an option without a value to a parser or a group."""
    group.add_argument(name, action="store_true", help=help)


def add_file(group: argparse._ActionsContainer, name: str, help: str, **more: Any) -> None:
    """Add an option with the name of a file; ``more`` is as for ``add_argument``."""
    group.add_argument(name, metavar="FILE", help=help, **more)


def add_number(
    group: argparse._ActionsContainer,
    name: str,
    help: str,
    default: float | None = None,
    metavar: str = "N",
    kind: type | None = None,
) -> None:
    """Add an option with a number, of the type of its default unless ``kind`` says another.

    The help ends with the default unless it names it itself.
    """
    kind = kind or (float if isinstance(default, float) else int)
    shown = "" if default is None or "%(default)s" in help else " (%(default)s)"
    group.add_argument(name, type=kind, default=default, metavar=metavar, help=help + shown)
