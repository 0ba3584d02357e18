"""The command line: ``convs2s COMMAND`` or ``python -m convs2s COMMAND``.

``commands.COMMANDS`` lists the commands. Each is a module of this folder and is imported only if it
is chosen.
"""

import os
import sys
from importlib import import_module

from .. import __version__
from ..common.errors import TRACEBACK_VARIABLE, UserError
from ..common.installation import missing_fairseq
from . import commands
from .commands import COMMANDS

__all__ = ["COMMANDS", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error that the user can correct."""
    name = commands.chosen(argv, __version__)
    if COMMANDS[name].needs_fairseq:
        if sentence := missing_fairseq():
            print(f"convs2s: error: {sentence}", file=sys.stderr)
            return 1
        import_module("convs2s_plugin").compat.enable_all()
    module = import_module(f".{COMMANDS[name].module}", __name__)
    try:
        return commands.run(module, name, argv, __version__)
    except UserError as error:
        message = str(error)
    except OSError as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
    print(f"convs2s {name}: error: {message}", file=sys.stderr)
    return 2
