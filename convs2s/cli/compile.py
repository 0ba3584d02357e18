"""``convs2s compile``: graphs of a model with which ONNX Runtime translates faster."""

import argparse
import shlex
import shutil
from pathlib import Path

from ..checkpoints.folders import ENCODER_GRAPH, STEP_GRAPH, find_checkpoints
from .arguments import add_dictionaries, add_input


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "checkpoint", "a model, or its folder", metavar="CHECKPOINT")
    add_dictionaries(parser)


def run(args: argparse.Namespace) -> int:
    """Write the graphs beside the checkpoint, and say what uses them."""
    path = str(find_checkpoints(Path(args.checkpoint))[0])
    from ..checkpoints.export.onnx_files import check_exportable, write_graphs
    from ..checkpoints.networks import read_checkpoint
    from ..common.output_files import atomic_folder, check_folder_writable
    from ..translation.compiled import (
        DIGEST,
        check_graphs,
        digest_of,
        folder_of,
    )
    from ..translation.loading import load_network
    from ..translation.text import own_dictionaries

    folder = folder_of(path)
    checkpoint = read_checkpoint(path)
    check_exportable(checkpoint)
    written = {ENCODER_GRAPH, STEP_GRAPH, DIGEST}
    if folder.is_dir() and {each.name for each in folder.iterdir()} <= written:
        shutil.rmtree(folder)
    check_folder_writable(str(folder))
    languages = args.source_lang, args.target_lang
    network = load_network(checkpoint, own_dictionaries(checkpoint, args.data, languages)).float()
    network.dequantize_()
    with atomic_folder(str(folder)) as partial:
        write_graphs(network, Path(partial), {}, output=False)
        check_graphs(network, Path(partial))
        Path(partial, DIGEST).write_text(f"{digest_of(network)}\n", encoding="utf-8")
    print(f"{folder}: `convs2s translate --path {shlex.quote(path)}` uses it on a CPU.")
    return 0
