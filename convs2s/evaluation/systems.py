"""The systems of an evaluation: files of translations, or models that translate."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..checkpoints.folders import SAFETENSORS, split_names, split_paths
from ..common import text_files
from ..common.errors import UserError
from ..common.plain_files import check_can_exist

SUFFIX = ".pt"


class System(NamedTuple):
    """A system.

    Attributes:
        name: its name in the tables.
        checkpoints: the model, or several for an ensemble; empty for a file of translations.
        file: the file of translations.
    """

    name: str
    checkpoints: tuple[str, ...] = ()
    file: str | None = None


def parse_system(text: str) -> System:
    """Parse ``[NAME=]FILE``, ``[NAME=]CHECKPOINT.pt[:CHECKPOINT.pt...]``, ``[NAME=]FOLDER``.

    The name is by default that of the file, with the folder above it for a model. For a folder, see
    ``find_checkpoints``.

    Raises:
        UserError: if a file does not exist, or checkpoints and translations are mixed.
    """
    name, separator, path = text.partition("=")
    # A file may have "=" in its name.
    if not separator or os.path.exists(text):
        name, path = "", text
    for each in split_names(path):
        if not os.path.exists(each):
            raise UserError(
                f"There is no file {each or repr(text)}: a system is [NAME=]FILE with "
                f"translations, or [NAME=]CHECKPOINT{SUFFIX}, or a folder of checkpoints."
            )
    paths = split_paths(path)
    models = [each for each in paths if each.endswith((SUFFIX, SAFETENSORS))]
    if not models and len(paths) == 1:
        return System(name or Path(path).name, file=paths[0])
    if len(models) < len(paths):
        raise UserError(
            f"{path} names several files, but not all are checkpoints (*{SUFFIX}): an ensemble "
            "consists of checkpoints."
        )
    first = Path(path).resolve() if os.path.isdir(path) else Path(models[0])
    return System(name or "/".join(first.parts[-2:]), tuple(models))


def parse_systems(texts: Sequence[str], what: str = "systems") -> list[System]:
    """Parse systems, which must all differ; see ``parse_system``.

    Args:
        texts: the systems.
        what: what they are, for errors.
    Raises:
        UserError: if two have the same name, or the same files.
    """
    systems = [parse_system(text) for text in texts]
    by_files: dict[tuple[str, ...], str] = {}
    names: set[str] = set()
    for text, system in zip(texts, systems):
        paths = system.checkpoints or (str(system.file),)
        files = tuple(sorted(map(os.path.realpath, paths)))
        if files in by_files:
            raise UserError(
                f"Two {what} are the same file: {by_files[files]} and {text}. Give each file once."
            )
        if system.name in names:
            raise UserError(
                f"Two {what} are called {system.name}: give names, such as baseline=FILE."
            )
        by_files[files] = text
        names.add(system.name)
    return systems


def read_sentences(path: str) -> list[str]:
    """The sentences of a file, one per line."""
    return [*text_files.read_sentences(path)]


def read_matching(path: str, other: str, count: int) -> list[str]:
    """The sentences of a file that has one for each line of another.

    Args:
        path: the file.
        other: the other file, for errors.
        count: its number of lines.
    Raises:
        UserError: if the file has another number of lines.
    """
    lines = read_sentences(path)
    if len(lines) != count:
        raise UserError(
            f"{path} has {len(lines):,} line(s), but {other} has {count:,}: line by line, they "
            "must belong to the same sentences."
        )
    return lines


def read_references(paths: Sequence[str]) -> list[list[str]]:
    """The reference texts.

    Raises:
        UserError: if a file is given twice, has no lines, or has another number of lines than the
            first one.
    """
    seen: set[str] = set()
    for path in paths:
        check_can_exist(path)
        if os.path.realpath(path) in seen:
            raise UserError(f"{path} is given twice (--references): give each file once.")
        seen.add(os.path.realpath(path))
    first = read_sentences(paths[0])
    if not first:
        raise UserError(f"{paths[0]} has no lines: the references need at least one.")
    return [first, *(read_matching(path, paths[0], len(first)) for path in paths[1:])]
