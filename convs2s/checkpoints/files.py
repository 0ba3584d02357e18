"""Checkpoint files: error messages for unreadable files, writing, and the updates of a run."""

import os
import pickle
import re
import struct
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ..common.archives import is_archive_name
from ..common.errors import UserError
from ..common.output_files import atomic_path
from ..nn.int8 import is_quantized
from .folders import SAFETENSORS
from .legacy import inert_pickle
from .sizes import check_packed, check_unpacked, is_zip
from .weights import check_finite, check_weights

# What torch raises if a file is damaged or is not a checkpoint.
UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    tarfile.TarError,
    struct.error,
    zipfile.BadZipFile,
)
# Where fairseq keeps exponential averages, and those in single precision (--ema-fp32) if the model
# is in half.
EMA = ("ema", "ema_fp32_params")
CLEAN = (
    "`convs2s clean-checkpoint` rewrites a checkpoint of any fairseq model as plain data, without "
    "executing anything in it."
)


def unreadable_checkpoint(path: str, error: Exception, name: str | None = None) -> UserError:
    """The error to raise if torch cannot load a checkpoint.

    It never repeats torch's advice to load the file with ``weights_only=False``, which would run
    code from the file.

    Args:
        path: the file.
        error: the error that torch raised.
        name: what to call the file (default: its path).
    """
    if os.path.isdir(path):
        return UserError(
            f"{path} is a folder: give a checkpoint, such as {path}/checkpoint_best.pt."
        )
    name = name or path
    refused = re.search(r"GLOBAL (\S+) (?:was not an allowed global|whose module)", str(error))
    if refused:
        return UserError(
            f"{name} holds an object of {refused[1]}, which is not plain data, and is therefore "
            f"not loaded. {CLEAN}"
        )
    if is_archive_name(path):
        return UserError(
            f"{name} is an archive: unpack it and give the folder in it, or name a released model "
            "with --model."
        )
    of_torch = "weights_only" in str(error)
    if of_torch and _may_be_checkpoint(path):
        return UserError(
            f"{name} is not loaded, because it holds pickled data other than tensors, numbers, "
            f"text, and lists and dictionaries of them. {CLEAN}"
        )
    # The first sentence: torch continues with guesses about the cause.
    said = isinstance(error, RuntimeError) and not of_torch
    reason = re.split(r"\.(?:\s|$)", str(error))[0] if said else ""
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return UserError(
        f"{name} ({size:,} bytes) is not a complete checkpoint{f': {reason}' if reason else ''}. "
        "If writing or downloading it was interrupted, use another checkpoint or download it again."
    )


def _may_be_checkpoint(path: str) -> bool:
    """Whether a file begins as torch's formats do: an archive of zip or tar, or a pickle."""
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return True
    return head.startswith((b"PK\x03\x04", b"\x80")) or head[257:262] == b"ustar"


def allow_plain_data() -> None:
    """Allow the classes in fairseq's checkpoints for ``torch.load`` with ``weights_only=True``.

    Besides tensors and plain containers, the checkpoints contain ``argparse.Namespace`` and, with
    ``--eval-bleu``, NumPy arrays of numbers. Loading these executes no code from the file.
    """
    reconstruct_array = np.zeros(0).__reduce__()[0]
    dtypes = [type(np.dtype(kind)) for kind in (np.int64, np.float64)]
    allowed: list[Any] = [Namespace, reconstruct_array, np.ndarray, np.dtype, *dtypes]
    torch.serialization.add_safe_globals(allowed)
    # Of all encodings, pickle needs this one. Others, such as "hex", double what they are given.
    known = torch._weights_only_unpickler._get_allowed_globals()
    if "_codecs.encode" in known:
        known["_codecs.encode"] = inert_pickle.encode_latin1


def load_checkpoint(path: str, memory_mapped: bool = False) -> dict[str, Any]:
    """Read a checkpoint of fairseq-train as it is in the file, or the weights of a folder.

    Args:
        path: the file.
        memory_mapped: whether tensors stay in the file until they are used (False).
    Raises:
        UserError: if the file cannot be read or is not such a checkpoint, or if a weight is not
            finite.
    """
    checkpoint: Any
    if path.endswith(SAFETENSORS):
        # Its packages would delay reading other files.
        from .model_folder import read_state

        checkpoint = read_state(path)
    else:
        check_packed(path)
        allow_plain_data()
        try:
            mmap = memory_mapped and is_zip(path)
            checkpoint = torch.load(path, map_location="cpu", mmap=mmap, weights_only=True)
        except FileNotFoundError as error:
            raise UserError(f"There is no file {path}.") from error
        except Exception as error:
            raise unreadable_checkpoint(path, error) from error
        check_unpacked(checkpoint, path)
    weights: Any = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    check_weights(weights, path)
    check_finite(weights, path)
    found: dict[str, Any] = checkpoint
    return found


def check_not_quantized(path: str, weights: Iterable[str], done: str) -> None:
    """Refuse a checkpoint in int8.

    Args:
        path: the file.
        weights: the names of its weights.
        done: what cannot be done with it, for the error.
    Raises:
        UserError: if it is in int8.
    """
    if is_quantized(weights):
        raise UserError(
            f"{path} is in int8 and cannot be {done}: use the checkpoint that `convs2s quantize` "
            "read."
        )


def new_training(num_updates: int = 0) -> dict[str, Any]:
    """What a checkpoint of weights and options needs, so that a training run can start from it.

    Args:
        num_updates: the updates that the weights have had.
    """
    optimizer = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    return {
        "optimizer_history": [{**optimizer, "num_updates": num_updates}],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }


def without_training(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint without the state of the optimizer and exponential averages, to translate with.

    Args:
        checkpoint: the checkpoint, which is not changed.
    """
    content = {**checkpoint, "last_optimizer_state": None}
    if isinstance(state := checkpoint.get("extra_state"), dict):
        content["extra_state"] = {name: state[name] for name in state if name not in EMA}
    return content


def save_checkpoint(checkpoint: dict[str, Any], path: str) -> None:
    """Write a checkpoint atomically; see ``atomic_path``.

    Raises:
        UserError: if the file cannot be written.
    """
    with atomic_path(path) as partial:
        try:
            with open(partial, "wb") as file:
                torch.save(checkpoint, file)
        except RecursionError as error:
            raise UserError(f"{path} is not written: its data are nested too deeply.") from error
        except RuntimeError as error:
            # On a full disk, torch reports the position in the file instead of the reason.
            cause = error.__context__
            if not isinstance(cause, OSError):
                raise
            raise cause from error


def is_cut_off(path: str) -> bool:
    """Whether a file is the beginning of a checkpoint: writing or copying it was interrupted."""
    with open(path, "rb") as file:
        start = file.read(2)
    return not start or start == b"PK" and not zipfile.is_zipfile(path)


def num_updates(path: str) -> int | None:
    """The number of updates in a checkpoint that a training run can continue from.

    Args:
        path: a file.
    Returns:
        The number, or None if the file is damaged or is not such a checkpoint.
    """
    allow_plain_data()
    try:
        check_packed(path)
        # Weights are not read.
        checkpoint = torch.load(path, map_location="cpu", mmap=is_zip(path), weights_only=True)
        checkpoint["extra_state"]["train_iterator"]
        return int(checkpoint["optimizer_history"][-1]["num_updates"])
    except UNREADABLE:
        return None
