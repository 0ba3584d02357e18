"""``convs2s path``: print the folder to pass to fairseq's ``--user-dir``."""

import argparse

from ..common.errors import UserError
from ..common.installation import plugin_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has none."""


def run(args: argparse.Namespace) -> int:
    """Print the folder of the plugin.

    Raises:
        UserError: if it is not installed.
    """
    folder = plugin_folder()
    if folder is None:
        raise UserError("There is no package convs2s_plugin here: install convs2s-plugin again.")
    print(folder)
    return 0
