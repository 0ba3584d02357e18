"""``convs2s clean-checkpoint``: rewrite a checkpoint of any fairseq model as plain data."""

import argparse
import os

from ..common.output_files import check_writable
from .arguments import add_flag, add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "old", "checkpoint of any model of fairseq", metavar="OLD.pt")
    parser.add_argument("new", metavar="NEW.pt", help="checkpoint to write")
    text = "omit the optimizer state, which only a resumed training run needs"
    add_flag(parser, "--drop-optimizer", text)


def run(args: argparse.Namespace) -> int:
    """Write the cleaned checkpoint, and print what it lacks."""
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.legacy.fconv import is_translation_model
    from ..checkpoints.legacy.reading import architecture, clean, read_old_checkpoint

    # NEW may be OLD, which was read before.
    check_writable(args.new)
    old_size = os.path.getsize(args.old) if os.path.isfile(args.old) else 0
    cleaned, left_out = clean(read_old_checkpoint(args.old), args.old, args.drop_optimizer)
    save_checkpoint(cleaned, args.new)
    new_size = os.path.getsize(args.new)
    print(
        f"{args.new}: {len(cleaned['model'])} tensors; {new_size / 1e6:,.1f} MB instead of "
        f"{old_size / 1e6:,.1f} MB"
    )
    for line in left_out:
        print(f"left out: {line}")
    if is_translation_model(architecture(cleaned)):
        print("`convs2s convert-fconv` turns fairseq's fconv into a model of this package.")
    return 0
