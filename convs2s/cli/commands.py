"""The commands of ``convs2s``, and the parser of their arguments."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, TextIO, cast

from .. import __version__
from ..common.errors import TRACEBACK_VARIABLE, UserError

# Name -> one line of help. The module of a command has its name, with underscores, and defines
# ``add_arguments(parser)`` and ``run(args) -> int``.
COMMANDS = {
    "path": "print the folder to give to fairseq's --user-dir",
    "adl": "explain or draw a definition in the Architecture Definition Language, or list named "
    "architectures and layers",
    "average": "average the weights of several checkpoints of one training",
    "clean-checkpoint": "rewrite a checkpoint of any fairseq model as plain data, without "
    "executing anything in it",
    "convert-attn2d": "convert a checkpoint of the 2018 code for pervasive attention (attn2d)",
    "convert-fconv": "convert checkpoints and released archives of fairseq's fconv (version 1 or "
    "2) to checkpoints of convs2s",
    "evaluate": "score translations, summaries or alignments, and compare systems",
    "experiment": "train, translate and compare systems that a YAML file describes",
    "export-onnx": "export a model of ConvS2S to ONNX, as an encoder and a decoding step",
    "export-transformer": "export a model in ADL with the layers of a transformer to fairseq's own "
    "transformer",
    "flops": "count the parameters and the training cost of an architecture, or of all named ones",
    "lexicon": "estimate a bilingual lexicon from parallel text, for candidate vocabularies and "
    "--replace-unk",
    "plot": "plot the curves of trainings, BLEU by length, or the sweep of an option",
    "plot-attention": "show the attention of every layer and head between sentences and their "
    "translations, as a picture, a page or data",
    "prepare": "prepare parallel text for a training, from raw files to binarized data",
    "quantize": "save a trained model with weights in 8 bits, for generation on a CPU",
    "rerank": "choose translations from n-best lists: by minimum Bayes risk, or by the scores of "
    "several models",
    "train": "train a model on prepared data, with good options for its size",
    "translate": "translate lines of text with a trained model",
}
# The commands that get the arguments that they do not know as ``args.forwarded``.
FORWARDING = {"flops", "train"}
# Former names of commands: the first argument -> those that replace it.
FORMER = {"architectures": ("flops", "--named")}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error that the user can correct."""
    argv = sys.argv[1:] if argv is None else argv
    argv = [*FORMER.get(argv[0], argv[:1]), *argv[1:]] if argv else []
    # This exits after --help or --version, and if the command is missing or unknown.
    name = _parser().parse_known_args(argv)[0].command
    try:
        module = import_module(f".{name.replace('-', '_')}", __package__)
        parser = _parser(name, module.add_arguments)
        args, forwarded = parser.parse_known_args(argv)
        if name in FORWARDING:
            args.forwarded = forwarded
        elif forwarded:
            parser.error(f"unrecognized arguments: {' '.join(forwarded)}")
        return _with_standard_output(lambda: module.run(args), name)
    except UserError as error:
        message = str(error)
    except OSError as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
    print(f"convs2s {name}: error: {message}", file=sys.stderr)
    return 2


class OutputError(Exception):
    """Standard output cannot be written; not an OSError, which would be that of another file."""


class _StandardOutput:
    """Standard output; it raises OutputError if it cannot be written."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputError(error) from error

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(error) from error


def _with_standard_output(run: Callable[[], int], name: str) -> int:
    """Run a command, and report that standard output could not be written.

    Nothing is said if the program that reads it has ended.
    """
    if hasattr(signal, "SIGPIPE"):
        # Importing sacrebleu makes this signal end the process, without removing partial files.
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    stream = sys.stdout
    if stream is None:
        return run()
    sys.stdout = cast(TextIO, _StandardOutput(stream))
    try:
        code = run()
        sys.stdout.flush()
        return code
    except OutputError as failed:
        # What is left in the buffer goes nowhere, without an error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(failed.__cause__, BrokenPipeError):
            return 0
        reason = getattr(failed.__cause__, "strerror", None) or failed
        print(
            f"convs2s {name}: error: Standard output cannot be written: {reason}.", file=sys.stderr
        )
        return 2
    finally:
        sys.stdout = stream


def _parser(
    chosen: str | None = None,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.ArgumentParser:
    """A parser for the names of all commands and the arguments of the chosen one."""
    parser = argparse.ArgumentParser(prog="convs2s", description="Commands of convs2s.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=text,
            description=text,
            add_help=name == chosen,
            allow_abbrev=name not in FORWARDING,
        )
        if add_arguments is not None and name == chosen:
            add_arguments(added)
    return parser
