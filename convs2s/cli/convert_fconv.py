"""``convs2s convert-fconv``: convert a checkpoint or a released archive of fairseq's fconv."""

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.limits import option_name
from ..common.locks import release
from ..common.output_files import (
    atomic_folder,
    check_folder_writable,
    check_writable,
    create_temporary,
)
from ..text.tokenizers import TOKENIZERS
from .arguments import add_flag, add_input, add_languages

if TYPE_CHECKING:
    from ..checkpoints.legacy.releases import Convert


def add_arguments(parser: argparse.ArgumentParser, model: str = "fconv") -> None:
    """Add the arguments of the command.

    Args:
        parser: the parser.
        model: the model of fairseq that it converts.
    """
    text = (
        f"a checkpoint of fairseq's {model}, an archive (.tar.bz2, .tar.gz) or a folder with "
        "checkpoints, dictionaries and BPE codes, or the http(s) address of a file"
    )
    parser.add_argument("old", metavar="OLD", help=text)
    text = "checkpoint of convs2s to write; a new folder if OLD is an archive or a folder"
    parser.add_argument("new", metavar="NEW", help=text)
    release = parser.add_argument_group("archives and folders")
    add_languages(release, "no checkpoint says")
    text = (
        "tokenizer of the training text (default: moses_fairseq; none if the languages are "
        "called src and trg)"
    )
    release.add_argument("--tokenizer", choices=tuple(TOKENIZERS), help=text)
    add_input(release, "--bpe-codes", "codes of subword-nmt (default: those in OLD)")
    add_flag(release, "--lowercase", "the training text was in lower case")
    text = "checkpoints in OLD to convert (default: all files that end in .pt)"
    release.add_argument("--checkpoint", nargs="+", metavar="NAME", help=text)


def run(args: argparse.Namespace) -> int:
    """Write the converted checkpoint or the folder, and print a summary."""
    return convert(args, _load)


def _load() -> "Convert":
    from ..checkpoints.legacy.fconv import convert_checkpoint

    return convert_checkpoint


def convert(args: argparse.Namespace, load: Callable[[], "Convert"]) -> int:
    """Convert a checkpoint, a folder or an archive, and print a summary.

    Args:
        args: the arguments of the command.
        load: imports torch, and returns the conversion of one checkpoint.
    """
    from ..common.archives import is_address

    if not is_address(args.old):
        _convert(Path(args.old), args.old, args, load)
        return 0
    with _downloaded(args.old, args.new) as path:
        _convert(path, args.old, args, load)
    return 0


@contextmanager
def _downloaded(address: str, new: str) -> Iterator[Path]:
    """A file that is downloaded to the folder of NEW, and deleted afterwards."""
    from ..common.archives import download, is_archive_name

    (check_folder_writable if is_archive_name(address) else check_writable)(new)
    path = Path(f"{os.path.abspath(new)}.{os.getpid()}.download")
    try:
        descriptor = create_temporary(str(path), new)
        try:
            download(address, path)
            yield path
        finally:
            path.unlink(missing_ok=True)
            release(descriptor)
    except OSError as error:
        raise UserError(f"{new} cannot be written: {error.strerror or error}.") from error


def _convert(old: Path, name: str, args: argparse.Namespace, load: Callable[[], "Convert"]) -> None:
    """Convert a file or a folder, which the user has given as ``name``, a path or an address."""
    if not old.exists():
        raise UserError(f"There is no file or folder {name}.")
    # These import torch.
    from ..checkpoints.legacy.releases import ReleaseOptions, convert_release, is_wanted
    from ..common.archives import is_archive, unpack

    if not old.is_dir() and not is_archive(old, name):
        _convert_checkpoint(old, name, args, load())
        return
    options = ReleaseOptions(
        **{each.name: getattr(args, each.name) for each in fields(ReleaseOptions)}
    )
    with atomic_folder(args.new) as new:
        folder = old
        if not old.is_dir():
            folder = Path(new, ".unpacked")
            folder.mkdir()
            unpack(old, folder, is_wanted, name)
        command = f"convs2s {args.command}"
        parameters, content = convert_release(folder, Path(new), options, name, load(), command)
        if folder != old:
            shutil.rmtree(folder)
    _report(args.new, parameters, content)


def _report(new: str, parameters: dict[str, int], content: dict[str, Any]) -> None:
    """Print the files that were written, and a command that translates with them."""
    from ..text.preparation import FILE_NAME

    for path, number in parameters.items():
        print(f"{Path(new, path)}: {number:,} numbers")
    languages, subwords = content["languages"], content["subwords"]
    codes = subwords["files"]["source"] if subwords["files"] else "none"
    print(
        f"{Path(new, FILE_NAME)}: {languages['source']} to {languages['target']}, tokenizer "
        f"{content['tokenizer']}, BPE codes {codes}"
    )
    print(
        f"\nTranslate with:\n\nconvs2s translate --path {Path(new, next(iter(parameters)))} "
        f"--input FILE.{languages['source']} --output FILE.{languages['target']}"
    )


def _convert_checkpoint(
    old: Path, name: str, args: argparse.Namespace, convert_checkpoint: "Convert"
) -> None:
    """Convert a single checkpoint; its dictionaries and codes stay where they are."""
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.legacy.releases import ReleaseOptions, convert_file

    for option in fields(ReleaseOptions):
        if getattr(args, option.name):
            raise UserError(
                f"{option_name(option.name)} is for archives and folders, but {name} is one file."
            )
    check_writable(args.new, [str(old)])
    converted = convert_file(convert_checkpoint, old, name)
    save_checkpoint(converted, args.new)
    parameters = sum(tensor.numel() for tensor in converted["model"].values())
    print(f"{args.new}: {len(converted['model'])} tensors, {parameters:,} numbers")
