"""The command line: ``convs2s COMMAND`` or ``python -m convs2s_plugin COMMAND``.

A command is a module here with NAME, HELP, ``add_arguments(parser)`` and ``run(args) -> int``.
"""

import argparse
import sys
from typing import List, Optional

from ..errors import UserError
from ..version import __version__
from . import adl, architectures, average, convert_fconv, lexicon, path, plot_attention

COMMANDS = (path, adl, architectures, average, convert_fconv, lexicon, plot_attention)


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command and return its exit code (2 for an error that the user can mend)."""
    parser = argparse.ArgumentParser(prog="convs2s", description="Tools around convs2s_plugin.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except UserError as error:
        print(f"convs2s {args.command}: error: {error}", file=sys.stderr)
        return 2
