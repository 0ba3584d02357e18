"""Binarize text with fairseq-preprocess."""

from collections.abc import Sequence
from pathlib import Path

from ..common.errors import WorkInterrupted
from ..common.programs import ProgramFailed, Programs
from .sources import Languages


def preprocess_command(
    languages: Languages,
    train: Path,
    valid: Path,
    tests: Sequence[Path],
    destination: Path,
    joined: bool,
    workers: int = 1,
    max_words: int | None = None,
) -> list[object]:
    """The command that builds dictionaries and binarizes text.

    Args:
        languages: source and target.
        train, valid, tests: the text, without the suffixes of the languages.
        destination: folder to write to.
        joined: one dictionary for both languages.
        workers: number of processes.
        max_words: most entries of a dictionary, without fairseq's special symbols.
    """
    command: list[object] = ["fairseq-preprocess", "-s", languages[0], "-t", languages[1]]
    command += ["--joined-dictionary"] if joined else []
    command += ["--trainpref", train, "--validpref", valid]
    command += ["--testpref", ",".join(map(str, tests))] if tests else []
    if max_words is not None:
        command += ["--nwordssrc", max_words]
        command += [] if joined else ["--nwordstgt", max_words]
    return [*command, "--destdir", destination, "--workers", workers]


def binarize(command: Sequence[object], log: Path) -> None:
    """Run fairseq-preprocess.

    Args:
        command: see ``preprocess_command``.
        log: file for its output.
    Raises:
        WorkInterrupted: if it fails.
    """
    try:
        Programs(log.with_suffix(".sh")).run(command, log)
    except ProgramFailed as error:
        raise WorkInterrupted(f"{error}.") from error
