"""Checks that weights can be computed with, made once, where a checkpoint is read."""

import re
from typing import Any

import torch
from torch import Tensor

from ..common.errors import UserError
from ..nn.int8 import SUFFIX

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COUNTERS = (torch.int32, torch.int64)
# The bias of fairseq's dynamic convolutions, which it neither sets nor adds: any numbers.
UNUSED = re.compile(r"\.conv\.conv_bias$")
DIVERGED = "the training has diverged, or the file is damaged. Use an earlier checkpoint."


def check_weights(weights: Any, name: str) -> None:
    """Check that weights are plain tensors with names; their numbers are not read.

    Args:
        weights: the entry ``model`` of a checkpoint.
        name: its file, for the error.
    Raises:
        UserError: if they are not.
    """
    if not isinstance(weights, dict):
        raise UserError(f"{name} is not a checkpoint of fairseq-train: it has no weights.")
    for key, value in weights.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise UserError(
                f"{name} is not a checkpoint of fairseq-train: its weight {key} is not a tensor, "
                f"but of type {type(value).__name__}."
            )
        if (kind := _foreign_kind(key, value)) is not None:
            raise UserError(
                f"{name} cannot be used: its weight {key} is {kind}, not a plain tensor of "
                "floating-point numbers."
            )


def check_finite(weights: dict[str, Tensor], name: str) -> None:
    """Check that all numbers of weights are finite, except in weights that compute nothing.

    Args:
        weights: plain tensors; see ``check_weights``.
        name: their file, for the error.
    Raises:
        UserError: if one is infinite or not a number.
    """
    for key, tensor in weights.items():
        if not is_finite(tensor) and not UNUSED.search(key):
            what = "NaN (not a number)" if tensor.isnan().any() else "an infinite number"
            raise UserError(f"{name} cannot be used: its weight {key} has {what}: {DIVERGED}")


def check_finite_state(state: Any, name: str, advice: str) -> None:
    """Check the tensors in the state of an optimizer.

    Args:
        state: tensors in dictionaries and lists, and anything else.
        name: its file, for the error.
        advice: what to do, the end of the error.
    Raises:
        UserError: if a number is infinite or not a number.
    """
    waiting = [("", state)]
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{place}.{key}", each) for key, each in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(f"{place}.{number}", each) for number, each in enumerate(value)]
        elif isinstance(value, Tensor) and not (_foreign_form(value) or is_finite(value)):
            raise UserError(
                f"{name} has a state of the optimizer that is infinite or not a number "
                f"({place.removeprefix('.')}): the training has diverged. {advice}"
            )


@torch.no_grad()
def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a plain tensor are finite."""
    if tensor.dtype not in FLOATING:
        return True
    # A sum costs a tenth of ``isfinite``. That of finite numbers may be infinite.
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _foreign_kind(key: str, tensor: Tensor) -> str | None:
    """What a weight is, if it is not one that training or ``convs2s quantize`` writes, or None."""
    if (form := _foreign_form(tensor)) is not None:
        return form
    is_int8, dtype = key.endswith(SUFFIX), tensor.dtype
    # Numbers of a counter, such as the batches of batch normalization, are not a matrix.
    is_counter = dtype in COUNTERS and tensor.dim() < 2
    if dtype is torch.int8 if is_int8 else dtype in FLOATING or is_counter:
        return None
    return f"of type {str(dtype).removeprefix('torch.')}"


def _foreign_form(tensor: Tensor) -> str | None:
    """How the numbers of a tensor are kept if not one by one in memory; otherwise None."""
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout is not torch.strided:
        return "a sparse tensor"
    if tensor.is_meta:
        return "a tensor without numbers (meta)"
    if tensor.is_quantized:
        return "a tensor that torch quantized"
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        return "a view that repeats its numbers (expanded)"
    return None
