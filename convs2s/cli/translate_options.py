"""The options of ``convs2s translate``."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..checkpoints.folders import find_checkpoints
from ..common.errors import UserError
from ..common.limits import check_at_least, option_name
from ..common.output_files import check_outputs
from ..translation.options import AUTOCAST_DTYPES, BUFFER_SIZE, EnsembleOptions
from .arguments import add_file, add_flag, add_number
from .plugin import add_user_dir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; those that fairseq-interactive has too, have its names."""
    parser.add_argument(
        "--path",
        nargs="+",
        required=True,
        metavar="CHECKPOINT",
        help="a trained model; several are an ensemble",
    )
    files = parser.add_argument_group("files")
    add_file(files, "--input", "text to translate (standard input)")
    add_file(files, "--output", "translations (standard output)")
    add_flag(
        files,
        "--line-by-line",
        "answer each line before reading the next one; default on a terminal",
    )
    add_file(files, "--report", "list the lines that were split or may be cut off")
    add_file(
        files,
        "--alignment",
        "the alignment of each translation with its source, in tokens: 0-0 1-2 ...",
    )
    add_number(
        files,
        "--nbest",
        "write the N best translations of each line: number of the line, score and text, "
        "separated by tabs",
    )
    add_flag(files, "--scores", "write the score and a tab before each translation")
    add_preparation(parser)
    add_search(parser)
    add_speed(parser)
    add_user_dir(parser)


def add_preparation(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how text becomes tokens."""
    text = parser.add_argument_group(
        "preparation",
        "default: preparation.yaml in the folder of the checkpoint or of the dictionaries, or in "
        "the folder above it",
    )
    text.add_argument(
        "--preparation", metavar="DIR", help="folder of the preparation.yaml of `convs2s prepare`"
    )
    add_dictionaries(text)
    add_file(text, "--bpe-codes", "segment tokenized text with these codes of subword-nmt")
    add_flag(text, "--raw", "the text consists of tokens separated by spaces")


def add_dictionaries(group: argparse._ActionsContainer) -> None:
    """Add the options that say where the dictionaries of a model are, to a parser or a group."""
    group.add_argument(
        "--data",
        metavar="DIR",
        help="folder of the dictionaries (default: found from the checkpoint)",
    )
    group.add_argument(
        "--source-lang",
        "-s",
        metavar="CODE",
        help="source language, if the data do not say it",
    )
    group.add_argument("--target-lang", "-t", metavar="CODE", help="the same for the target")


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the options of the search."""
    search = parser.add_argument_group("search")
    for name, text in (
        ("beam", "beam size"),
        ("lenpen", "exponent of the length in the score: above 1 favors long translations"),
        ("min_len", "smallest number of target tokens"),
        ("max_len_b", "largest number of target tokens"),
        ("candidates_per_word", "with --lexicon: number of candidates of each source token"),
        ("frequent_candidates", "with --lexicon: number of frequent target tokens"),
    ):
        add_number(search, option_name(name), text, getattr(EnsembleOptions, name))
    add_flag(search, "--unnormalized", "scores without a length penalty")
    add_file(search, "--lexicon", "restrict the target vocabulary to candidates")
    text = "replace unknown words by their source word, or by its translation in FILE"
    add_file(search, "--replace-unk", text, nargs="?", const="")


def add_speed(parser: argparse.ArgumentParser) -> None:
    """Add the options that change the speed."""
    speed = parser.add_argument_group("speed")
    add_number(
        speed,
        "--max-tokens",
        "largest number of source tokens in a batch",
        EnsembleOptions.max_tokens,
    )
    add_number(speed, "--batch-size", "largest number of sentences in a batch")
    add_number(
        speed,
        "--buffer-size",
        "number of lines that are sorted by length and translated together",
        BUFFER_SIZE,
    )
    add_number(
        speed, "--workers", "number of processes that translate with one copy of the weights", 1
    )
    speed.add_argument(
        "--autocast-dtype", choices=AUTOCAST_DTYPES, default="none", help="precision"
    )
    add_flag(speed, "--int8", "weights in 8 bits, on CPUs with VNNI or AMX")
    speed.add_argument(
        "--device", metavar="NAME", help="cpu, cuda, cuda:1 (default: a GPU if there is one)"
    )


def translator_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a ``Translator`` that the functions above add."""
    return {
        name: getattr(args, name)
        for name in (
            "data",
            "preparation",
            "bpe_codes",
            "raw",
            "source_lang",
            "target_lang",
            "beam",
            "lenpen",
            "unnormalized",
            "min_len",
            "max_len_b",
            "lexicon",
            "candidates_per_word",
            "frequent_candidates",
            "replace_unk",
            "max_tokens",
            "batch_size",
            "workers",
            "autocast_dtype",
            "int8",
            "device",
        )
    }


def files_read(args: argparse.Namespace) -> list[str]:
    """The files that a ``Translator`` with these options reads, without the checkpoints."""
    named = [args.bpe_codes, args.lexicon, args.replace_unk]
    folders = [*files_of_folder(args.data), *files_of_folder(args.preparation)]
    return [*filter(None, named), *folders]


def files_of_folder(folder: str | None) -> list[str]:
    """The dictionaries and the preparation in a folder that an option names, if it does."""
    if not folder or not os.path.isdir(folder):
        return []
    patterns = ("dict.*.txt", "preparation.yaml", "*codes.bpe", "*sentencepiece.model")
    return [str(path) for pattern in patterns for path in Path(folder).glob(pattern)]


def split_paths(paths: Sequence[str]) -> list[str]:
    """The checkpoints in the values of an option; a value may name several, as in fairseq.

    Raises:
        UserError: if a folder has no checkpoint.
    """
    return [
        str(find_checkpoints(Path(path))[0]) if os.path.isdir(path) else path
        for value in paths
        for path in ([value] if os.path.exists(value) else value.split(os.pathsep))
    ]


def check(args: argparse.Namespace) -> None:
    """Check the options that are about files, before a model is loaded.

    Raises:
        UserError: if a file is named twice, an output cannot be written, or the input is missing.
    """
    check_at_least(args, nbest=1)
    outputs = {"--output": args.output, "--report": args.report, "--alignment": args.alignment}
    read = [*split_paths(args.path), args.input or "/dev/stdin", *files_read(args)]
    check_outputs(outputs, read)
    if args.input and not os.path.exists(args.input):
        raise UserError(f"There is no file {args.input} (--input).")
