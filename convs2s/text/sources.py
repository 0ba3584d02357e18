"""Parallel text: as a user gives it, and as two files of lines that belong together."""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, TextIO

from ..common.compression import check_readable, without_compression
from ..common.errors import UserError
from ..common.lines import excerpt
from ..common.plain_files import printable
from ..common.text_files import (
    check_parallel,
    count_lines,
    line_error,
    read_parallel,
    read_parts,
)

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[_-][A-Za-z0-9]+)?")
_PAIR = re.compile(r"([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)?)-([A-Za-z]{2,3}(?:_[A-Za-z0-9]+)?)")
# Last parts of file names that look like languages but are not.
_NO_LANGUAGES = {"txt", "tsv", "csv", "tok", "raw"}
Languages = tuple[str, str]
Pair = tuple[str, str]


@dataclass(frozen=True)
class ParallelText:
    """Sentences and their translations.

    Attributes:
        option: the option that named the files, for errors.
        paths: a file of each language, or one file with two columns. Each may be compressed.
    """

    option: str
    paths: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.paths) > 2:
            raise UserError(
                f"{self.option} has {len(self.paths)} files: give one of each language, or one "
                "with tab-separated values."
            )
        for path in self.paths:
            if not path:
                raise UserError(f"{self.option} has an empty file name: give the name of a file.")
            if not Path(path).exists():
                raise UserError(f"There is no file {path} ({self.option}).")
            if Path(path).is_dir():
                raise UserError(f"{path} ({self.option}) is a folder: give files.")
            if not Path(path).is_file():
                raise UserError(
                    f"{path} ({self.option}) is not a plain file, and could not be read more than "
                    "once: write its text to a file, and give that."
                )
            name = str(Path(path).resolve())
            if name != printable(name):
                raise UserError(
                    f"{printable(name)} ({self.option}) is not a name in UTF-8, so it cannot be "
                    "recorded: rename this file, or the folder that it is in."
                )
            # Its suffix would be mistaken for a language.
            check_readable(path)
        if len(self.paths) == 2 and Path(self.paths[0]).samefile(self.paths[1]):
            raise UserError(
                f"{self.option} names {self.paths[0]} twice: give one file of each language."
            )

    def pairs(self, parts: Iterable[int] = (0,), size: int | None = None) -> Iterator[Pair]:
        """Read the pairs, one by one.

        Args:
            parts: numbers of the parts to read in ascending order, counted from 0.
            size: number of lines in a part (None: all).
        Raises:
            UserError: if a file cannot be read, is not UTF-8, has fewer lines than the other, or
                has a line without exactly one tab. An empty line is a pair of empty sentences.
        """
        numbers = [*parts]
        lines = [read_parts(path, numbers, size) for path in self.paths]
        for sides in zip_longest(*lines):
            number, line = next(filter(None, sides))
            check_parallel(self.paths, sides, number - 1)
            if len(sides) == 2:
                yield line, sides[1][1]
                continue
            columns = line.split("\t") if line.strip(" ") else ["", ""]
            if len(columns) != 2:
                raise line_error(
                    self.paths[0],
                    number,
                    f"expected a source and a target sentence with one tab between them, found "
                    f"{len(columns) - 1} tabs in {excerpt(line)}",
                )
            yield columns[0], columns[1]

    def count(self) -> int:
        """The number of pairs.

        Raises:
            UserError: if a file cannot be read, has no lines, or has fewer than the other.
        """
        # Files in another encoding have other lines; reading the first line detects this.
        next(self.pairs(), None)
        number = count_lines(self.paths)
        if not number:
            raise UserError(f"{' and '.join(self.paths)} ({self.option}) has no lines.")
        return number

    def languages(self) -> Languages | None:
        """The languages in the names of the files; None if they have none.

        They are the last parts of ``corpus.de`` and ``corpus.en.gz``, or ``de-en`` in
        ``corpus.de-en.tsv``.
        """
        names = [without_compression(PurePath(path).name) for path in self.paths]
        names = [re.sub(r"\.(txt|tsv)$", "", name) for name in names]
        if len(names) == 1:
            found = _PAIR.fullmatch(names[0].rpartition(".")[2])
            languages = found.groups() if found else ()
        else:
            ends = [PurePath(name).suffix[1:] for name in names]
            languages = tuple(
                end for end in ends if _LANGUAGE.fullmatch(end) and end not in _NO_LANGUAGES
            )
        return languages if len(set(languages)) == 2 else None  # type: ignore[return-value]

    def fingerprint(self) -> list[dict[str, Any]]:
        """Name, size and time of each file, to notice changes."""
        return fingerprint(self.paths)


def fingerprint(paths: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Name, size and time of each file, to notice changes."""
    stats = [(path, Path(path).stat()) for path in paths]
    return [
        {"path": str(Path(path).resolve()), "bytes": stat.st_size, "changed": stat.st_mtime_ns}
        for path, stat in stats
    ]


def find_languages(texts: list[ParallelText], source: str | None, target: str | None) -> Languages:
    """The languages that are given, otherwise those in the names of the files.

    Args:
        texts: all parallel text, the training text first.
        source, target: languages that the user gave.
    Raises:
        UserError: if a language is unknown, both are the same, or two names disagree.
    """
    first = texts[0]
    named = first.languages() or (None, None)
    languages = (named[0] if source is None else source, named[1] if target is None else target)
    for side, language in zip(("source", "target"), languages):
        if language is None:
            names = " and ".join(first.paths)
            raise UserError(
                f"The {side} language is not in the name of {names}: names end in both languages, "
                "as corpus.de and corpus.en do, or a file with tab-separated values in .de-en.tsv; "
                f"or give it with --{side}-lang."
            )
        if not re.fullmatch(r"[\w-]+", language):
            raise UserError(
                f"--{side}-lang is '{language}': use only letters, digits, '_' and '-', as in 'de'."
            )
    if languages[0] == languages[1] and first.languages():
        given = f"--{'source' if source else 'target'}-lang is {languages[0]}"
        raise UserError(
            f"{' and '.join(first.paths)} are in {named[0]} and {named[1]}, in this order, but "
            f"{given}: swap the files, or omit the option."
        )
    if languages[0] == languages[1]:
        raise UserError(
            f"Source and target language are both {languages[0]}: choose two names, such as "
            f"{languages[0]}_a and {languages[0]}_b."
        )
    for text in texts:
        if text.languages() == languages[::-1]:
            what = "the files" if len(text.paths) == 2 else "its columns, or the languages"
            raise UserError(
                f"{text.option} names {' and '.join(text.paths)}, but the source language is "
                f"{languages[0]} and the target language {languages[1]}: swap {what}."
            )
        others = text.languages()
        if source is None and target is None and others not in (None, languages):
            raise UserError(
                f"{text.option} names {' and '.join(text.paths)}, but the languages of "
                f"{' and '.join(first.paths)} are {languages[0]} and {languages[1]}: give files of "
                "these languages, or name the languages with --source-lang and --target-lang."
            )
    return languages  # type: ignore[return-value]


class PairWriter(ExitStack):
    """Writes pairs to ``NAME.LANGUAGE`` in a folder.

    Args:
        folder: the folder; made if it is missing.
        name: name of the split.
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
        yield source, target
