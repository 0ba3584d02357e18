"""``convs2s convert-fconv``: convert a checkpoint of fairseq's fconv."""

import argparse

from ..checkpoints import save_checkpoint
from ..convs2s.fconv import convert_checkpoint, read_checkpoint
from ..output_files import check_writable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("old", metavar="OLD.pt", help="checkpoint of fairseq's fconv")
    parser.add_argument("new", metavar="NEW.pt", help="checkpoint of convs2s to write")


def run(args: argparse.Namespace) -> int:
    """Write the converted checkpoint and print a summary."""
    check_writable(args.new)
    converted = convert_checkpoint(read_checkpoint(args.old), args.old)
    save_checkpoint(converted, args.new)
    parameters = sum(tensor.numel() for tensor in converted["model"].values())
    print(f"{args.new}: {len(converted['model'])} tensors, {parameters:,} numbers")
    return 0
