"""``convs2s path``: print the folder to give to fairseq's ``--user-dir``."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from ..common.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has none."""


def run(args: argparse.Namespace) -> int:
    """Print the folder of the plugin.

    Raises:
        UserError: if it is not installed.
    """
    spec = find_spec("convs2s_plugin")
    if spec is None or not spec.submodule_search_locations:
        raise UserError("There is no package convs2s_plugin here: install convs2s-plugin again.")
    print(Path(spec.submodule_search_locations[0]).resolve())
    return 0
