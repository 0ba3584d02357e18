"""``convs2s path``: the folder for fairseq's ``--user-dir``."""

import argparse
from pathlib import Path

NAME = "path"
HELP = "print the folder to give to fairseq's --user-dir"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the folder of the package."""
    print(Path(__file__).resolve().parent.parent)
    return 0
