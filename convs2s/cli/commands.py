"""The commands of ``convs2s``, and the parser of their arguments."""

import argparse
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn, TextIO, cast

from ..common.command_line import refusal
from ..common.errors import TRACEBACK_VARIABLE, UserError
from ..common.quiet import Shown
from ..common.signals import exit_on_signals

# Name -> one line of help. The module of a command has its name, with underscores, and defines
# ``add_arguments(parser)`` and ``run(args) -> int``.
COMMANDS = {
    "prepare": "prepare parallel text for training, from raw files to binarized data",
    "train": "train a model on prepared data, with good options for its size",
    "translate": "translate lines of text with a trained model",
    "evaluate": "score translations, summaries or alignments, and compare systems",
    "score": "compute the log-probabilities of given translations with a trained model",
    "plot-attention": "show the attention of every layer and head between sentences and their "
    "translations, as a picture, a page or data",
    "serve": "show a page to try models with, and translate over HTTP",
    "rerank": "choose translations from n-best lists: by minimum Bayes risk, or by the scores of "
    "several models",
    "experiment": "train, translate and compare systems that a YAML file describes",
    "plot": "plot curves of training runs, and scores by length, option, data set or speed",
    "adl": "explain, draw, verify or import a definition in the Architecture Definition Language, "
    "or list named architectures and layers",
    "flops": "count the parameters and the training cost of an architecture, or of all named ones",
    "average": "average the weights of several checkpoints of one training run",
    "quantize": "save a trained model with weights in 8 bits, for generation on a CPU",
    "fast": "make a fast copy of a trained model: weights in 8 bits, and shortlists of words",
    "compile": "make graphs of a trained model with which ONNX Runtime translates faster on a CPU",
    "lexicon": "estimate a bilingual lexicon from parallel text, for candidate vocabularies and "
    "--replace-unk",
    "export": "write a trained model as a folder of plain files with a card, or turn such a folder "
    "back into a checkpoint",
    "export-onnx": "export a model to ONNX, as an encoder and a decoding step",
    "export-transformer": "export a model in ADL with the layers of a transformer to fairseq's own "
    "transformer",
    "convert-fconv": "convert checkpoints and released archives of fairseq's fconv (version 1 or "
    "2) to checkpoints of convs2s",
    "convert-lightconv": "convert checkpoints and released archives of fairseq's LightConv and "
    "DynamicConv to models in ADL",
    "convert-attn2d": "convert a checkpoint of the 2018 code for pervasive attention (attn2d)",
    "clean-checkpoint": "rewrite a checkpoint of any fairseq model as plain data, without "
    "executing anything in it",
    "path": "print the folder to pass to fairseq's --user-dir",
    "doctor": "show what is installed, and which commands work with it",
    "completion": "print a script that lets a shell complete commands and options",
}
# Title -> the commands that --help lists below it.
GROUPS = {
    "from text to text": (
        *("prepare", "train", "translate", "serve", "evaluate", "score", "plot-attention"),
        "rerank",
    ),
    "comparisons and architectures": ("experiment", "plot", "adl", "flops"),
    "models and their files": (
        *("average", "quantize", "fast", "compile", "lexicon"),
        *("export", "export-onnx", "export-transformer"),
        *("convert-fconv", "convert-lightconv", "convert-attn2d", "clean-checkpoint"),
    ),
    "this installation": ("path", "doctor", "completion"),
}
# Command -> what --help shows as an example, without `convs2s` before it.
EXAMPLES = {
    "prepare": "--train corpus.de corpus.en --out prepared",
    "train": "prepared --minutes 30",
    "translate": "--path prepared --input new.de --output new.en",
    "evaluate": "prepared --source test.de --references test.en",
    "score": "--path prepared --input test.de --target-input test.en",
    "plot-attention": "'Zwei Hunde rennen.' --path prepared --output attention.html",
    "serve": "--path prepared",
    "rerank": "lists.txt --utility bleu --output chosen.en",
    "experiment": "compare.yaml --text corpus --out results --dry-run",
    "plot": "training prepared/checkpoints/train.log --output training.png",
    "adl": "explain 'repeat(2, res(cnn(glu)))' 'repeat(2, res(rnn) -> res(mlp_att))'",
    "flops": "--arch convs2s_iwslt_de_en --dropout 0.2",
    "average": "checkpoint8.pt checkpoint9.pt --output average.pt",
    "quantize": "checkpoint_best.pt small.pt",
    "fast": "prepared",
    "compile": "prepared",
    "lexicon": "--source train.de --target train.en --output lexicon.txt",
    "export": "prepared wmt14-de-en --license cc-by-4.0",
    "export-onnx": "checkpoint_best.pt onnx",
    "export-transformer": "checkpoint_best.pt transformer.pt",
    "convert-fconv": "wmt14.en-de.fconv-py.tar.bz2 wmt14",
    "convert-lightconv": "wmt16.en-de.joined-dict.dynamicconv-glu.tar.gz wmt16",
    "convert-attn2d": "model-best.pth checkpoint_best.pt",
    "clean-checkpoint": "old.pt new.pt --drop-optimizer",
    "path": "",
    "doctor": "",
    "completion": "bash > convs2s.bash",
}
# The commands that get the arguments that they do not know as ``args.forwarded``.
FORWARDING = {"flops", "train"}
# The beginnings of what argparse says if an argument is missing.
MISSING = ("the following arguments are required", "one of the arguments")
# Former names of commands: the first argument -> those that replace it.
FORMER = {"architectures": ("flops", "--named")}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 2 for an error that the user can correct, and 130 after Ctrl-C. Other signals that end
    programs raise SystemExit.
    """
    argv = sys.argv[1:] if argv is None else argv
    argv = [*FORMER.get(argv[0], argv[:1]), *argv[1:]] if argv else []
    # This exits after --help or --version, and if the command is missing or unknown.
    name = _parser().parse_known_args(argv)[0].command
    try:
        with exit_on_signals():
            return _with_standard_output(lambda: _run(name, argv), name)
    except KeyboardInterrupt:
        return 130
    except UserError as error:
        message = str(error)
    except (MemoryError, RuntimeError) as error:
        # torch has no class of its own for the memory of a CPU, and not everywhere for a GPU's.
        of_torch = ("allocate memory", "out of memory")
        is_memory = isinstance(error, MemoryError) or any(each in str(error) for each in of_torch)
        if os.environ.get(TRACEBACK_VARIABLE) or not is_memory:
            raise
        message = "There is not enough memory: give smaller files, or smaller batches."
    except OSError as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
    print(f"convs2s {name}: error: {message}", file=sys.stderr)
    return 2


def _run(name: str, argv: list[str]) -> int:
    """Run the command that the arguments name."""
    module = import_module(f".{name.replace('-', '_')}", __package__)
    args, forwarded = _parser(name, module.add_arguments).parse_known_args(argv)
    Shown.progress = not args.quiet
    if name in FORWARDING:
        args.forwarded = forwarded
    elif forwarded:
        args.parser.error(f"unrecognized arguments: {' '.join(forwarded)}")
    code: int = module.run(args)
    return code


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
    if sys.stderr is None:
        # As in a service without one.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")
    for each, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        # Text is UTF-8 in every locale; names of files may be any bytes.
        if isinstance(each, TextIOWrapper) and each.encoding.lower() != "utf-8":
            each.reconfigure(encoding="utf-8", errors=errors)
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


class _Version(argparse.Action):
    """Prints the versions of this package and of what it runs on."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        """Print them, and end the program."""
        from ..common.installation import versions

        print("\n".join(f"{name} {version}" for name, version in versions().items()))
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence, without its usage.

    The arguments have the innermost parser, that of the command or sub-command, as ``parser``.
    """

    # Shown below the help, each line as it is.
    example = ""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.set_defaults(parser=self)

    def format_help(self) -> str:
        """The help, and an example."""
        return super().format_help() + self.example

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, see ``argparse``."""
        self.given = args or ()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """End the program."""
        options = self._option_string_actions

        def is_unknown(argument: str) -> bool:
            name = argument.partition("=")[0]
            return name.startswith("--") and not any(each.startswith(name) for each in options)

        # argparse says what is missing before it says what is misspelled. A command of FORWARDING
        # has options of another program, too.
        if message.startswith(MISSING) and self.allow_abbrev:
            unknown = [*filter(is_unknown, self.given)]
            if unknown:
                message = f"unrecognized arguments: {' '.join(unknown)}"
        self.exit(
            2, f"{self.prog}: error: {refusal(message, options)}. See `{self.prog} --help`.\n"
        )


class _TopParser(Parser):
    """The parser of the names of commands; its help lists them in groups."""

    def format_help(self) -> str:
        """The help."""
        width = shutil.get_terminal_size().columns - 2
        indent = " " * 22
        lines = [self.format_usage().strip(), "\n`convs2s COMMAND --help` explains a command."]
        for title, names in GROUPS.items():
            lines.append(f"\n{title}:")
            for name in names:
                start = f"  {name:<18}  "
                text = textwrap.fill(
                    COMMANDS[name], width, initial_indent=start, subsequent_indent=indent
                )
                lines.append(text)
        return "\n".join([*lines, "\n--version prints versions.\n"])


def full_parser() -> Parser:
    """A parser with the arguments of all commands, for the completion of shells."""
    parser, commands = _parsers()
    for name, text in COMMANDS.items():
        module = import_module(f".{name.replace('-', '_')}", __package__)
        _add_command(commands, name, text, module.add_arguments)
    return parser


def _parser(
    chosen: str | None = None,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
) -> Parser:
    """A parser for the names of all commands and the arguments of the chosen one."""
    parser, commands = _parsers()
    for name, text in COMMANDS.items():
        _add_command(commands, name, text, add_arguments if name == chosen else None)
    return parser


def _parsers() -> tuple[Parser, Any]:
    """The parser of the names, and argparse's object that those of commands are added to."""
    parser = _TopParser(prog="convs2s")
    parser.add_argument("--version", action=_Version, nargs=0)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=Parser
    )
    return parser, commands


def _add_command(
    commands: Any,
    name: str,
    text: str,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None,
) -> None:
    """Add the parser of a command, without arguments if their function is None."""
    added = commands.add_parser(
        name,
        help=text,
        description=text,
        add_help=add_arguments is not None,
        allow_abbrev=name not in FORWARDING,
    )
    if add_arguments is not None:
        add_arguments(added)
        added.add_argument("--quiet", "-q", action="store_true", help="show no progress")
        added.example = f"\nexample:\n  convs2s {name} {EXAMPLES[name]}".rstrip() + "\n"
