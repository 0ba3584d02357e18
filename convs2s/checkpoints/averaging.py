"""The average of several checkpoints of one training run."""

from collections.abc import Mapping
from typing import Any

import torch

from ..common.errors import UserError
from .dictionaries import TASK_STATE, saved_digests
from .files import EMA, check_not_quantized, load_checkpoint, save_checkpoint, without_training
from .weights import check_finite, check_weights


def save_average(paths: list[str], output: str, ema: bool = False) -> None:
    """Write the average of checkpoints; see ``average``."""
    save_checkpoint(average(paths, ema), output)


def average(paths: list[str], ema: bool = False) -> dict[str, Any]:
    """Average the weights of checkpoints in double precision.

    Args:
        paths: checkpoints of fairseq-train.
        ema: average the exponential moving averages that ``--store-ema`` saved in them, in place
            of the weights (False).
    Returns:
        The last checkpoint with averaged floating-point weights, and without optimizer state and
        exponential averages.
    Raises:
        UserError: if a file cannot be read, or its weights have other names, shapes or types than
            those of the first one, or are in int8, or they were trained with other dictionaries, or
            it has no exponential averages.
    """
    sums: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    dictionaries: Mapping[str, Any] = {}
    for path in paths:
        checkpoint = load_checkpoint(path)
        if ema:
            checkpoint["model"] = _exponential_averages(checkpoint, path)
        weights = checkpoint["model"]
        check_not_quantized(path, weights, "averaged")
        found = {
            name: (tensor.shape, tensor.is_floating_point()) for name, tensor in weights.items()
        }
        shapes = shapes or found
        if found != shapes:
            raise UserError(
                f"{path} has weights with other names, shapes or types than {paths[0]}: only "
                "checkpoints of the same architecture can be averaged."
            )
        of_path = saved_digests(checkpoint.get(TASK_STATE))
        dictionaries = dictionaries or of_path
        if of_path and of_path != dictionaries:
            raise UserError(
                f"{path} was trained with other dictionaries than the checkpoints before it: only "
                "checkpoints with the same dictionaries can be averaged."
            )
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, 0.0) + tensor.double() / len(paths)
    means: dict[tuple[Any, ...], torch.Tensor] = {}
    for name, total in sums.items():
        last = weights[name]
        mean = total.to(last.dtype)
        # A weight with several names stays one, and is in the file once.
        first = means.setdefault((last.data_ptr(), last.shape, last.stride()), mean)
        weights[name] = first if first.equal(mean) else mean
    return without_training(checkpoint)


def _exponential_averages(checkpoint: dict[str, Any], path: str) -> dict[str, Any]:
    """The exponential averages of weights in a checkpoint.

    Raises:
        UserError: if there are none.
    """
    state = checkpoint.get("extra_state")
    found, in_single = map(state.get, EMA) if isinstance(state, dict) else (None, None)
    if not isinstance(found, dict):
        raise UserError(
            f"{path} has no exponential averages of weights: train with --store-ema, or omit --ema."
        )
    averages = {**found, **(in_single or {})}
    check_weights(averages, path)
    check_finite(averages, path)
    return averages
