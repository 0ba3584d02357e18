"""``convs2s path``: the folder for fairseq's ``--user-dir``."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """Print the folder of the package."""
    print(Path(__file__).resolve().parent.parent)
    return 0
