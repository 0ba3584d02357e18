"""``convs2s export-onnx``: a model of ConvS2S as ONNX files."""

import argparse
from pathlib import Path

from ..common.output_files import check_folder_writable
from ..common.quiet import quiet
from .plugin import use_plugin
from .translate_options import add_dictionaries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a model of ConvS2S")
    parser.add_argument("output", metavar="FOLDER", help="new folder to write")
    add_dictionaries(parser)


def run(args: argparse.Namespace) -> int:
    """Write the ONNX files and the dictionaries, and print a summary."""
    check_folder_writable(args.output)
    use_plugin()

    import torch

    from ..checkpoints.export.onnx_files import DECODER, ENCODER, check_exportable, export_onnx
    from ..translation.loading import (
        Places,
        find_dictionaries,
        load_model,
        read_checkpoint,
        setup_task,
    )
    from ..translation.options import EnsembleOptions

    checkpoint = read_checkpoint(args.checkpoint)
    check_exportable(checkpoint)
    folders = [Path(args.data)] if args.data else [Path(args.checkpoint).resolve().parent]
    places = Places(folders, (args.source_lang, args.target_lang), with_training_data=not args.data)
    dictionaries = find_dictionaries(checkpoint, places)
    options = EnsembleOptions(device="cpu")
    with quiet():
        task = setup_task(checkpoint, dictionaries, options)
        model = load_model(checkpoint, task, torch.device("cpu"), options.beam).float()
    export_onnx(model, args.output, dictionaries)
    print(
        f"{args.output}: {ENCODER}, {DECODER}, dict.{dictionaries.source}.txt, "
        f"dict.{dictionaries.target}.txt"
    )
    return 0
