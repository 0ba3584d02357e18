"""Checkpoint files: error messages for unreadable files, and writing."""

import os
import pickle
import re
from typing import Any

import torch

from .errors import UserError
from .output_files import atomic_path

# What torch raises if a file is damaged, or is no checkpoint.
UNREADABLE = (
    *(RuntimeError, EOFError, OSError, KeyError, IndexError, ValueError),
    pickle.UnpicklingError,
)
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
    name = name or path
    refused = re.search(r"GLOBAL (\S+) (?:was not an allowed global|whose module)", str(error))
    if refused:
        return UserError(
            f"{name} holds an object of {refused[1]}, which is not plain data, and is therefore "
            f"not loaded. {CLEAN}"
        )
    if "weights_only" in str(error):
        return UserError(
            f"{name} is not loaded, because it holds pickled data other than tensors, numbers, "
            f"text, and lists and dictionaries of them. {CLEAN}"
        )
    reason = str(error).strip().splitlines()[0] if isinstance(error, RuntimeError) else ""
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return UserError(
        f"{name} ({size:,} bytes) is not a complete checkpoint{f': {reason}' if reason else '.'} "
        "If writing or downloading it was interrupted, use another checkpoint or download it again."
    )


def save_checkpoint(checkpoint: dict[str, Any], path: str) -> None:
    """Write a checkpoint atomically; see ``atomic_path``.

    Raises:
        UserError: if the file cannot be written.
    """
    with atomic_path(path) as partial:
        try:
            torch.save(checkpoint, partial)
        except RuntimeError as error:
            # torch's own writer, on a full disk.
            raise UserError(f"{path} cannot be written: {error}.") from error
