"""The commands of ``convs2s``, and the parser of their arguments.

This file imports neither torch nor fairseq.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TextIO, cast


class Command(NamedTuple):
    """A command.

    Attributes:
        module: name of its module in this folder, which defines ``add_arguments(parser)`` and
            ``run(args) -> int``.
        help: one line of help.
        forwards: whether arguments that the command does not know are passed to it as
            ``args.forwarded``.
    """

    module: str
    help: str
    forwards: bool = False


COMMANDS = {
    "path": Command("path", "print the folder to give to fairseq's --user-dir"),
    "adl": Command(
        "adl",
        "explain a definition in the Architecture Definition Language, or list named "
        "architectures and layers",
    ),
    "average": Command("average", "average the weights of several checkpoints of one training"),
    "clean-checkpoint": Command(
        "clean_checkpoint",
        "rewrite a checkpoint of any fairseq model as plain data, without executing anything in it",
    ),
    "convert-attn2d": Command(
        "convert_attn2d",
        "convert a checkpoint of the 2018 code for pervasive attention (attn2d)",
    ),
    "convert-fconv": Command(
        "convert_fconv",
        "convert checkpoints and released archives of fairseq's fconv (version 1 or 2) to "
        "checkpoints of convs2s",
    ),
    "evaluate": Command(
        "evaluate", "score translations, summaries or alignments, and compare systems"
    ),
    "experiment": Command(
        "experiment", "train, translate and compare systems that a YAML file describes"
    ),
    "export-onnx": Command(
        "export_onnx", "export a model of ConvS2S to ONNX, as an encoder and a decoding step"
    ),
    "export-transformer": Command(
        "export_transformer",
        "export a model in ADL with the layers of a transformer to fairseq's own transformer",
    ),
    "flops": Command(
        "flops",
        "count the parameters and the training cost of an architecture, or of all named ones",
        forwards=True,
    ),
    "lexicon": Command(
        "lexicon",
        "estimate a bilingual lexicon from parallel text, for candidate vocabularies and "
        "--replace-unk",
    ),
    "plot": Command(
        "plot", "plot the curves of trainings, BLEU by length, or the sweep of an option"
    ),
    "plot-attention": Command(
        "plot_attention",
        "show the attention of every layer and head between sentences and their translations, as a "
        "picture, a page or data",
    ),
    "prepare": Command(
        "prepare",
        "prepare parallel text for a training, from raw files to binarized data",
    ),
    "quantize": Command(
        "quantize", "save a trained model with weights in 8 bits, for generation on a CPU"
    ),
    "rerank": Command(
        "rerank",
        "choose translations from n-best lists: by minimum Bayes risk, or by the scores of several "
        "models",
    ),
    "translate": Command("translate", "translate lines of text with a trained model"),
}


# Former names of commands: the first argument -> those that replace it.
FORMER = {"architectures": ("flops", "--named")}


def without_former_names(argv: Sequence[str]) -> list[str]:
    """The arguments after the program name, with a former name of a command replaced."""
    return [*FORMER.get(argv[0], argv[:1]), *argv[1:]] if argv else []


def chosen(argv: Sequence[str], version: str) -> str:
    """Return the name of the command in the arguments.

    Exits after ``--help`` or ``--version``, and if the command is missing or unknown.

    Args:
        argv: the arguments after the program name.
        version: the version that ``--version`` prints.
    """
    return _parser(version).parse_known_args(argv)[0].command


def run(module: ModuleType, name: str, argv: Sequence[str], version: str) -> int:
    """Parse the arguments of one command, run it and return its exit code.

    Args:
        module: the module of the command.
        name: the command.
        argv, version: as in ``chosen``.
    """
    parser = _parser(version, name, module)
    args, forwarded = parser.parse_known_args(argv)
    if COMMANDS[name].forwards:
        args.forwarded = forwarded
    elif forwarded:
        parser.error(f"unrecognized arguments: {' '.join(forwarded)}")
    return _with_standard_output(lambda: module.run(args), name)


class OutputError(Exception):
    """Standard output cannot be written; not an OSError, which would be that of another file.

    Args:
        error: the reason.
    """

    def __init__(self, error: OSError):
        super().__init__(error)
        self.error = error


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

    Args:
        run: returns the exit code.
        name: the command, for the error.
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
        if isinstance(failed.error, BrokenPipeError):
            return 0
        reason = failed.error.strerror or failed.error
        print(
            f"convs2s {name}: error: Standard output cannot be written: {reason}.", file=sys.stderr
        )
        return 2
    finally:
        sys.stdout = stream


def _parser(
    version: str, chosen: str | None = None, module: ModuleType | None = None
) -> argparse.ArgumentParser:
    """A parser for the names of all commands and the arguments of the chosen one."""
    parser = argparse.ArgumentParser(prog="convs2s", description="Commands of convs2s.")
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name,
            help=command.help,
            description=command.help,
            add_help=name == chosen,
            allow_abbrev=not command.forwards,
        )
        if module is not None and name == chosen:
            module.add_arguments(added)
    return parser
