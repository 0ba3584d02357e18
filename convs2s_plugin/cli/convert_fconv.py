"""``convs2s convert-fconv``: a checkpoint of fairseq's fconv becomes one of convs2s."""

import argparse

from ..checkpoints import save_checkpoint
from ..convs2s.fconv import convert_checkpoint, read_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """OLD and NEW."""
    parser.add_argument("old", metavar="OLD.pt", help="checkpoint of fairseq's fconv")
    parser.add_argument("new", metavar="NEW.pt", help="where to write the checkpoint of convs2s")


def run(args: argparse.Namespace) -> int:
    """Convert and say what was made."""
    converted = convert_checkpoint(read_checkpoint(args.old), args.old)
    save_checkpoint(converted, args.new)
    parameters = sum(tensor.numel() for tensor in converted["model"].values())
    print(f"{args.new}: {len(converted['model'])} tensors, {parameters:,} numbers")
    return 0
