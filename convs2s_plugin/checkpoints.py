"""Checkpoint files: error messages for unreadable files, and atomic writing."""

import os
import re
from typing import Any

import torch

from .errors import UserError


def unreadable_checkpoint(path: str, error: Exception) -> UserError:
    """The error to raise if torch cannot load a checkpoint.

    Args:
        path: the file.
        error: the error that torch raised.
    """
    rejected = re.search(r"GLOBAL (\S+) was not an allowed global", str(error))
    if rejected:
        return UserError(
            f"{path} holds an object of {rejected[1]}, which is not plain data, and is therefore "
            "not loaded. `convs2s convert-fconv` converts checkpoints of fairseq's fconv to plain "
            "data."
        )
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return UserError(
        f"{path} ({size:,} bytes) is not a complete checkpoint: {reason} "
        "If writing or downloading it was interrupted, use another checkpoint or download it again."
    )


def save_checkpoint(checkpoint: dict[str, Any], path: str) -> None:
    """Write a checkpoint atomically.

    Raises:
        UserError: if the file cannot be written.
    """
    partial = f"{path}.partial"
    try:
        torch.save(checkpoint, partial)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise UserError(f"{path} cannot be written: {error}") from error
