"""A trained model with which another training run begins."""

from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from ...common.errors import UserError
from ...models import FAMILIES
from ..options import Options

# The learning rate and the length of a recipe are for random weights; trained ones get these shares
# of them. The learning rate was chosen in examples/pronunciation.
LEARNING_RATE, LENGTH = 0.25, 0.1
# Options of a model that a recipe or the data would choose for random weights.
CHOSEN = ("dropout", "share_all_embeddings")


class Start(NamedTuple):
    """The model.

    Attributes:
        path: its checkpoint.
        arch: its architecture.
        options: its options that differ from those of the architecture, and ``CHOSEN``.
    """

    path: Path
    arch: str
    options: Options


def read_start(path: Path) -> Start:
    """Read which model is in a checkpoint.

    Raises:
        UserError: if there is none, it is none of this package, or its weights have 8 bits.
    """
    # It imports torch, which a training run with random weights does not need here.
    from ...checkpoints.networks import network_options, read_checkpoint
    from ...nn.int8 import SUFFIX

    checkpoint = read_checkpoint(str(path))
    if checkpoint.family is None:
        raise UserError(
            f"{path} has the architecture {checkpoint.architecture}, which is none of this "
            "package: use fairseq-train, with its --arch and --finetune-from-model."
        )
    if any(name.endswith(SUFFIX) for name in checkpoint.weights):
        raise UserError(f"{path} has weights in 8 bits, which cannot be trained: give others.")
    options = network_options(checkpoint)
    known = FAMILIES[checkpoint.family].architectures().get(checkpoint.architecture)
    usual = type(options)(**(known.options if known else {}))
    names = [each.name for each in fields(options)]
    changed = {
        name.replace("_", "-"): getattr(options, name)
        for name in names
        if name in CHOSEN or getattr(options, name) != getattr(usual, name)
    }
    return Start(path, checkpoint.architecture, changed)
