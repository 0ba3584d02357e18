"""The command line: ``convs2s COMMAND`` or ``python -m convs2s COMMAND``.

``commands.COMMANDS`` lists the commands. Each is a module of this folder and is imported only if it
is chosen. A module imports torch, fairseq and the plugin while the command runs, and not before.
"""

import os
import sys
from importlib import import_module

from .. import __version__
from ..common.errors import TRACEBACK_VARIABLE, UserError
from . import commands
from .commands import COMMANDS

__all__ = ["COMMANDS", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error that the user can correct."""
    argv = commands.without_former_names(sys.argv[1:] if argv is None else argv)
    name = commands.chosen(argv, __version__)
    try:
        module = import_module(f".{COMMANDS[name].module}", __name__)
        return commands.run(module, name, argv, __version__)
    except UserError as error:
        message = str(error)
    except OSError as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
    print(f"convs2s {name}: error: {message}", file=sys.stderr)
    return 2
