"""``convs2s quantize``: save a trained model with weights in 8 bits."""

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..common.errors import UserError
from ..common.output_files import check_writable
from ..common.quiet import quiet
from .plugin import use_plugin

if TYPE_CHECKING:
    from torch import Tensor

    from ..models.base import PluginModel
    from ..translation.loading import Checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("old", metavar="OLD", help="checkpoint of a model of this package")
    parser.add_argument("new", metavar="NEW", help="checkpoint to write")


def run(args: argparse.Namespace) -> int:
    """Write the quantized checkpoint and print its size."""
    check_writable(args.new, [args.old])
    use_plugin()
    from ..checkpoints.files import check_not_quantized, load_checkpoint, save_checkpoint
    from ..translation.loading import read_checkpoint

    checkpoint = read_checkpoint(args.old)
    check_not_quantized(args.old, checkpoint.state["model"], "quantized once more")
    with quiet():
        model = _load_model(checkpoint)
    before = _megabytes(model.state_dict().values())
    model.quantize_()
    weights = model.state_dict()
    # The options stay as they are in the file.
    saved = load_checkpoint(args.old)
    save_checkpoint({**saved, "model": weights, "last_optimizer_state": None}, args.new)
    print(f"{args.new}: weights of {_megabytes(weights.values()):,.1f} MB instead of {before:,.1f}")
    return 0


def _load_model(checkpoint: "Checkpoint") -> "PluginModel":
    """The model of a checkpoint, prepared for generation.

    Raises:
        UserError: if it is not one of this package.
    """
    import torch

    from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask

    from ..models.base import PluginModel
    from ..translation.loading import load_model
    from .made_up import dictionary_of_size

    weights = checkpoint.state["model"]
    embeddings = [weights.get(f"{side}.embed.words.weight") for side in ("encoder", "decoder")]
    if all(matrix is not None and matrix.dim() == 2 for matrix in embeddings):
        # The weights do not depend on the tokens, only on their number.
        dictionaries = [dictionary_of_size(len(matrix)) for matrix in embeddings]
        task = ConvS2STranslationTask(ConvS2STranslationConfig(), *dictionaries)
        model = load_model(checkpoint, task, torch.device("cpu"), beam=1)
        if isinstance(model, PluginModel):
            return model.float()
    raise UserError(f"{checkpoint.path} has no model of this package, which quantize needs.")


def _megabytes(tensors: Iterable["Tensor"]) -> float:
    """The size of tensors, each counted once."""
    sizes = {tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in tensors}
    return sum(sizes.values()) / 1e6
