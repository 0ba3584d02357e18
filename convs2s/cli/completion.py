"""``convs2s completion``: a script that lets a shell complete commands and options."""

import argparse
from collections.abc import Iterator

import shtab

FILES = (
    *("FILE", "[NAME=]FILE", "[NAME=]LOG", "FILE.yaml", "DIR", "FOLDER", "DATA", "CHECKPOINT"),
    *("OLD", "OLD.pt", "NEW", "NEW.pt", "OUTPUT", "SYSTEM"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument of the command."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell: bash or zsh")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    from .commands import full_parser

    parser = full_parser()
    for action in _actions(parser):
        metavar = action.metavar
        if metavar in FILES or getattr(action, "what", None):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All arguments of a parser and of those below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
