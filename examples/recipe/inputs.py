"""What goes into an example: its options, the user's text or a made one, and files of lines."""

from __future__ import annotations

import argparse
import sys
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


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the examples that take parallel text."""
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        help="source and target text, line by line (default: the corpus of the demo)",
    )


def parallel_text(
    out: Path, args: argparse.Namespace, pairs: int
) -> tuple[list[Path], list[object]]:
    """The user's files; if there are none, files with the corpus of the demo.

    Args:
        out: output folder; the corpus is written to its folder text.
        args: see ``add_text_arguments`` and ``example_parser``.
        pairs: pairs of the demo's corpus; a fiftieth of them with --smoke.
    Returns:
        The files, and options of ``convs2s prepare`` for them.
    """
    if args.files:
        if len(args.files) != 2:
            sys.exit(
                f"There are {len(args.files)} files: give a source and a target file, or none."
            )
        return args.files, []
    sys.path.append(str(Path(__file__).resolve().parents[1] / "demo"))
    from make_corpus import LANGUAGES, make_corpus

    corpus = make_corpus(args.seed, {"corpus": pairs // 50 if args.smoke else pairs})["corpus"]
    files = [
        write_text(out / "text" / f"corpus.{language}", sentences)
        for language, sentences in zip(LANGUAGES, zip(*corpus))
    ]
    return files, ["--tokenizer", "none"]


def read_text(path: Path) -> list[str]:
    """The lines of a text file."""
    return [*read_sentences(str(path))]


def write_text(path: Path, lines: Iterable[str]) -> Path:
    """Write lines to a text file, whose folder is created if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
