"""``convs2s average``: average the weights of several checkpoints."""

import argparse

from ..common.output_files import check_writable
from .arguments import add_file, add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, named as those of fairseq's ``average_checkpoints.py``."""
    add_input(parser, "--inputs", "checkpoints", nargs="+", required=True)
    add_file(parser, "--output", "checkpoint to write", required=True)


def run(args: argparse.Namespace) -> int:
    """Write the average and print a summary."""
    from ..checkpoints.averaging import save_average

    check_writable(args.output, args.inputs)
    save_average(args.inputs, args.output)
    print(f"{args.output}: the average of {len(args.inputs)} checkpoints")
    return 0
