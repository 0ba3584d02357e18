"""Checkpoints with weights in 8 bits."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from ..common.errors import UserError
from .files import check_not_quantized, load_checkpoint, without_training
from .networks import Checkpoint, build_network, read_checkpoint


class Quantized(NamedTuple):
    """A model in 8 bits.

    Attributes:
        content: of the checkpoint, without the state of the optimizer and exponential averages.
        before, after: megabytes of the weights.
    """

    content: dict[str, Any]
    before: float
    after: float


def read_unquantized(path: str) -> Checkpoint:
    """Read a checkpoint that can be quantized.

    Raises:
        UserError: if it is in 8 bits already, or has no model of this package.
    """
    checkpoint = read_checkpoint(path)
    check_not_quantized(path, checkpoint.weights, "quantized once more")
    if checkpoint.family is None:
        raise UserError(
            f"{path} does not have a model of this package: only those can have weights in 8 bits."
        )
    return checkpoint


def quantized(path: str) -> Quantized:
    """Quantize the weights of a checkpoint.

    Raises:
        UserError: as for ``read_unquantized``.
    """
    checkpoint = read_unquantized(path)
    network = build_network(checkpoint).float()
    network.prepare_for_generation_()
    before = _megabytes(network.state_dict().values())
    network.quantize_()
    weights = network.state_dict()
    # The options stay as they are in the file.
    content = {**without_training(load_checkpoint(path)), "model": weights}
    return Quantized(content, before, _megabytes(weights.values()))


def _megabytes(tensors: Iterable[Tensor]) -> float:
    """The size of tensors, each counted once."""
    sizes = {tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in tensors}
    return sum(sizes.values()) / 1e6
