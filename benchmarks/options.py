"""Options that several commands have."""

import argparse
from collections.abc import Callable

from .setting import DEVICES

# Option -> its least value, and what it is.
NUMBERS = {
    "words": (10, "vocabulary size"),
    "sentences": (1, "sentences in a batch"),
    "length": (2, "tokens in a sentence"),
    "batches": (1, "batches of --data"),
    "tokens": (1, "target tokens in a batch"),
    "channels": (1, "channels of the features"),
    "beam": (1, "beam size"),
    "rounds": (1, "measured rounds"),
}


def int_at_least(least: int) -> Callable[[str], int]:
    """An argparse type for whole numbers from ``least``."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least {least}")
        return int(text)

    return read


def add_numbers(parser: argparse.ArgumentParser, **defaults: int) -> None:
    """Add options of NUMBERS with these defaults."""
    for name, default in defaults.items():
        least, text = NUMBERS[name]
        parser.add_argument(
            f"--{name}",
            type=int_at_least(least),
            default=default,
            help=f"{text} (default: %(default)s)",
        )


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``."""
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
