"""The commands of ``convs2s``: their names, modules and help, and how one of them is run.

This file imports nothing of the package, so that the console script can read it on its own
without importing torch and fairseq.
"""

import argparse
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple


class Command(NamedTuple):
    """One command: its module in this folder and one line of help.

    The module has ``add_arguments(parser)`` and ``run(args) -> int``.
    """

    module: str
    help: str


COMMANDS = {
    "path": Command("path", "print the folder to give to fairseq's --user-dir"),
    "adl": Command(
        "adl",
        "explain a definition in the Architecture Definition Language, or list what it knows",
    ),
    "architectures": Command(
        "architectures", "print the tables of named architectures in Markdown"
    ),
    "average": Command("average", "average the weights of several checkpoints of one training"),
    "convert-fconv": Command(
        "convert_fconv", "turn a checkpoint of fairseq's fconv (version 1 or 2) into one of convs2s"
    ),
    "lexicon": Command(
        "lexicon",
        "make a lexicon with probabilities from parallel text, for candidates and --replace-unk",
    ),
    "plot-attention": Command(
        "plot_attention", "draw the attention between source sentences and their translations"
    ),
}


def chosen(argv: Sequence[str] | None, version: str) -> str:
    """The name of the command in the arguments.

    Answers ``--help`` and ``--version``, and refuses a missing or unknown command, by exiting.

    Args:
        argv: the arguments after the program's name (None: those of the process).
        version: what ``--version`` prints.
    """
    return _parser(version).parse_known_args(argv)[0].command


def run(module: ModuleType, name: str, argv: Sequence[str] | None, version: str) -> int:
    """Parse the arguments of one command, run it and return its exit code.

    Args:
        module: the module of the command.
        name, argv, version: as in `chosen`.
    """
    return module.run(_parser(version, name, module).parse_args(argv))


def _parser(
    version: str, chosen: str | None = None, module: ModuleType | None = None
) -> argparse.ArgumentParser:
    """A parser that knows every command's name and help, and the options of the chosen one."""
    parser = argparse.ArgumentParser(prog="convs2s", description="Tools around convs2s_plugin.")
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        added = commands.add_parser(
            name, help=command.help, description=command.help, add_help=name == chosen
        )
        if module is not None and name == chosen:
            module.add_arguments(added)
    return parser
