"""``convs2s export-onnx``: a model as ONNX files."""

import argparse
from pathlib import Path

from ..checkpoints.folders import ENCODER_GRAPH, STEP_GRAPH, find_checkpoints
from ..common.output_files import check_folder_writable
from .arguments import add_dictionaries, add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "checkpoint", "a model, or its folder", metavar="CHECKPOINT")
    parser.add_argument("output", metavar="FOLDER", help="new folder to write")
    add_dictionaries(parser)


def run(args: argparse.Namespace) -> int:
    """Write the ONNX files and the dictionaries, and print a summary."""
    args.checkpoint = str(find_checkpoints(Path(args.checkpoint))[0])
    check_folder_writable(args.output)
    from ..checkpoints.export.onnx_files import check_exportable, export_onnx
    from ..checkpoints.networks import check_left_to_right, read_checkpoint
    from ..translation.loading import load_network
    from ..translation.text import own_dictionaries

    checkpoint = read_checkpoint(args.checkpoint)
    check_exportable(checkpoint)
    check_left_to_right(checkpoint, "other programs")
    languages = args.source_lang, args.target_lang
    dictionaries = own_dictionaries(checkpoint, args.data, languages)
    network = load_network(checkpoint, dictionaries).float()
    network.dequantize_()
    export_onnx(network, args.output, dictionaries.files)
    print(
        f"{args.output}: {ENCODER_GRAPH}, {STEP_GRAPH}, dict.{dictionaries.source}.txt, "
        f"dict.{dictionaries.target}.txt"
    )
    return 0
