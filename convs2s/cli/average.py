"""``convs2s average``: average the weights of several checkpoints."""

import argparse

from ..common.output_files import check_writable
from .arguments import add_file, add_flag, add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    inputs = parser.add_mutually_exclusive_group(required=True)
    text = "checkpoints of one training run"
    add_input(inputs, "checkpoints", text, metavar="CHECKPOINT", nargs="*", default=[])
    # The name in fairseq's average_checkpoints.py.
    add_input(inputs, "--inputs", argparse.SUPPRESS, nargs="+")
    text = "average the exponential moving averages of a training run with fairseq's --store-ema"
    add_flag(parser, "--ema", text)
    add_file(parser, "--output", "checkpoint to write", required=True)


def run(args: argparse.Namespace) -> int:
    """Write the average and print a summary."""
    from ..checkpoints.averaging import save_average

    paths = args.checkpoints or args.inputs
    check_writable(args.output, paths)
    save_average(paths, args.output, args.ema)
    print(f"{args.output}: the average of {len(paths)} checkpoints")
    return 0
