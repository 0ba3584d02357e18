"""``convs2s export-transformer``: a model in ADL as a checkpoint of fairseq's own transformer."""

import argparse
from pathlib import Path

from ..checkpoints.folders import find_checkpoints
from ..common.output_files import check_writable
from .arguments import add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "checkpoint", "a model in ADL, or its folder", metavar="CHECKPOINT")
    parser.add_argument("output", metavar="OUTPUT", help="checkpoint of fairseq to write")


def run(args: argparse.Namespace) -> int:
    """Write the exported checkpoint and print a summary."""
    args.checkpoint = str(find_checkpoints(Path(args.checkpoint))[0])
    check_writable(args.output, [args.checkpoint])
    from ..checkpoints.export.transformer import export_transformer
    from ..checkpoints.files import save_checkpoint
    from ..checkpoints.networks import read_checkpoint

    exported = export_transformer(read_checkpoint(args.checkpoint))
    save_checkpoint(exported, args.output)
    model = exported["cfg"]["model"]
    print(
        f"{args.output}: --arch transformer, {model['encoder_layers']} encoder and "
        f"{model['decoder_layers']} decoder layers, {model['encoder_embed_dim']} channels"
    )
    return 0
