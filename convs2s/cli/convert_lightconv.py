"""``convs2s convert-lightconv``: convert checkpoints of fairseq's LightConv and DynamicConv."""

import argparse
from typing import TYPE_CHECKING

from . import convert_fconv

if TYPE_CHECKING:
    from ..checkpoints.legacy.releases import Convert


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    convert_fconv.add_arguments(parser, "lightconv")


def run(args: argparse.Namespace) -> int:
    """Write the converted checkpoint or the folder, and print a summary."""
    return convert_fconv.convert(args, _load)


def _load() -> "Convert":
    from ..checkpoints.legacy.lightconv import convert_checkpoint

    return convert_checkpoint
