"""``convs2s quantize``: save a trained model with weights in 8 bits."""

import argparse
from pathlib import Path

from ..checkpoints.folders import find_checkpoints
from ..common.output_files import check_writable
from .arguments import add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "old", "checkpoint of a model of this package, or its folder", metavar="OLD")
    parser.add_argument("new", metavar="NEW", help="checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Write the quantized checkpoint and print its size."""
    args.old = str(find_checkpoints(Path(args.old))[0])
    check_writable(args.new, [args.old])
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.quantized import quantized

    content, before, after = quantized(args.old)
    save_checkpoint(content, args.new)
    print(f"{args.new}: weights of {after:,.1f} MB instead of {before:,.1f}")
    return 0
