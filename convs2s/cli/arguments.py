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
    type: type = int,
) -> None:
    """Add an option with a number; the help ends with the default unless it names it itself."""
    shown = "" if default is None or "%(default)s" in help else " (%(default)s)"
    group.add_argument(name, type=type, default=default, metavar=metavar, help=help + shown)
