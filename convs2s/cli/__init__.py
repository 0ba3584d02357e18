"""The command line: ``convs2s COMMAND`` or ``python -m convs2s COMMAND``.

``commands.COMMANDS`` lists the commands. Each is a module of this folder and is imported only if it
is chosen. A module imports torch, fairseq and the plugin while the command runs, and not before.
"""

from .commands import COMMANDS, main

__all__ = ["COMMANDS", "main"]
