"""What goes into an example: its options, and files of lines."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from convs2s.common.text_files import read_sentences


def example_parser(description: str, out: str) -> argparse.ArgumentParser:
    """A parser with the options of every example.

    Args:
        description: the docstring of the example.
        out: default output folder.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--out", type=Path, default=Path(out), help="output folder, emptied first (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the data and of training (%(default)s)"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few updates on a little data, to see whether everything works",
    )
    return parser


def read_text(path: Path) -> list[str]:
    """The lines of a text file."""
    return [*read_sentences(str(path))]


def write_text(path: Path, lines: Iterable[str]) -> Path:
    """Write lines to a text file, whose folder is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
