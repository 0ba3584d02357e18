"""``convs2s quantize``: save a trained model with weights in 8 bits."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..checkpoints.folders import find_checkpoints
from ..common.errors import UserError
from ..common.output_files import check_writable
from .arguments import add_input

if TYPE_CHECKING:
    from torch import Tensor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_input(parser, "old", "checkpoint of a model of this package, or its folder", metavar="OLD")
    parser.add_argument("new", metavar="NEW", help="checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Write the quantized checkpoint and print its size."""
    args.old = str(find_checkpoints(Path(args.old))[0])
    check_writable(args.new, [args.old])
    from ..checkpoints.files import check_not_quantized, load_checkpoint, save_checkpoint
    from ..checkpoints.networks import build_network, read_checkpoint

    checkpoint = read_checkpoint(args.old)
    check_not_quantized(args.old, checkpoint.weights, "quantized once more")
    if checkpoint.family is None:
        raise UserError(f"{args.old} has no model of this package, which quantize needs.")
    network = build_network(checkpoint).float()
    network.prepare_for_generation_()
    before = _megabytes(network.state_dict().values())
    network.quantize_()
    weights = network.state_dict()
    # The options stay as they are in the file.
    saved = load_checkpoint(args.old)
    save_checkpoint({**saved, "model": weights, "last_optimizer_state": None}, args.new)
    print(f"{args.new}: weights of {_megabytes(weights.values()):,.1f} MB instead of {before:,.1f}")
    return 0


def _megabytes(tensors: Iterable["Tensor"]) -> float:
    """The size of tensors, each counted once."""
    sizes = {tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in tensors}
    return sum(sizes.values()) / 1e6
