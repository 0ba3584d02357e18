"""The command line: ``convs2s COMMAND`` or ``python -m convs2s_plugin COMMAND``.

``commands.COMMANDS`` lists the commands. Each is a module of this folder and is imported only if it
is chosen.
"""

import os
import sys
from importlib import import_module

from ..errors import UserError
from ..fairseq_compat.messages import TRACEBACK_VARIABLE
from ..version import __version__
from . import commands
from .commands import COMMANDS

__all__ = ["COMMANDS", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 2 for an error that the user can correct."""
    name = commands.chosen(argv, __version__)
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
