"""Pairs of lines in the files of two languages."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from ..common.text_files import read_parallel
from .sources import Languages

Pair = tuple[str, str]


class PairWriter(ExitStack):
    """Writes pairs to ``NAME.LANGUAGE`` in a folder.

    Args:
        folder: the folder; made if it is missing.
        name: of the split.
        languages: source and target.
    """

    def __init__(self, folder: Path, name: str, languages: Languages):
        super().__init__()
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{name}.{language}" for language in languages]
        self._files: list[TextIO] = [
            self.enter_context(open(path, "w", encoding="utf-8", newline="\n")) for path in paths
        ]

    def write(self, source: str, target: str) -> None:
        """Write a pair."""
        self._files[0].write(f"{source}\n")
        self._files[1].write(f"{target}\n")


def read_pairs(folder: Path, name: str, languages: Languages) -> Iterator[Pair]:
    """The pairs that a ``PairWriter`` wrote."""
    paths = [str(folder / f"{name}.{language}") for language in languages]
    for _, (source, target) in read_parallel(paths):
        yield source.rstrip("\n"), target.rstrip("\n")
