"""Checkpoint files: why one cannot be read, and writing one whole."""

import os
import re
from typing import Any

import torch

from .errors import UserError


def unreadable(path: str, error: Exception) -> UserError:
    """The refusal of a checkpoint file that torch could not read.

    Args:
        path: the file.
        error: what torch raised.
    """
    foreign = re.search(r"GLOBAL (\S+) was not an allowed global", str(error))
    if foreign:
        return UserError(
            f"{path} holds an object of {foreign[1]}, which is not plain data, so that it is not "
            "loaded. A checkpoint of fairseq's fconv is made plain by `convs2s convert-fconv`."
        )
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    size = os.path.getsize(path) if os.path.exists(path) else 0
    return UserError(
        f"{path} ({size:,} bytes) is not a complete checkpoint: {reason} "
        "Was its writing or its download cut short? Use another checkpoint, or fetch it again."
    )


def save(checkpoint: dict[str, Any], path: str) -> None:
    """Write a checkpoint, or nothing at all.

    Raises:
        UserError: where the file cannot be written.
    """
    partial = f"{path}.partial"
    try:
        torch.save(checkpoint, partial)
        os.replace(partial, path)
    except (OSError, RuntimeError) as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise UserError(f"{path} cannot be written: {error}") from error
