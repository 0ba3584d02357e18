"""Checkpoint files: error messages for unreadable files, and writing."""

import os
import re
from typing import Any

import torch

from .errors import UserError
from .output_files import atomic_path


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
