"""``convs2s path``: print the folder to give to fairseq's ``--user-dir``."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments: the command has none."""


def run(args: argparse.Namespace) -> int:
    """Print the folder of the package."""
    print(Path(__file__).resolve().parent.parent)
    return 0
