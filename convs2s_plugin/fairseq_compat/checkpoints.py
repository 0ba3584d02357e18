"""Checkpoints: loading them with ``weights_only=True``, and copying them whole."""

import argparse
import functools
import pickle
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from ..checkpoints import unreadable


def allow_plain_data() -> None:
    """Let torch load what fairseq-train saves with ``weights_only=True``.

    Two kinds of objects in such a checkpoint are not torch's own: ``argparse.Namespace``, and
    with ``--eval-bleu`` arrays of numbers. Loading them sets attributes and runs nothing.
    """
    array = np.zeros(0)
    dtypes = [type(np.dtype(kind)) for kind in (np.int64, np.float64)]
    allowed: list[Any] = [argparse.Namespace, array.__reduce__()[0], np.ndarray, np.dtype, *dtypes]
    torch.serialization.add_safe_globals(allowed)


def explain_unreadable_checkpoints() -> None:
    """Turn torch's errors about a damaged file into a sentence that names the file."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, *args, **kwargs):
        try:
            return load(path, *args, **kwargs)
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise unreadable(path, error) from error

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def copy_checkpoints_whole() -> None:
    """Let a run that is killed at any moment leave a checkpoint_last.pt to go on from.

    fairseq writes a checkpoint whole or not at all, but then copies it over the last one.
    """
    copy = PathManager.copy

    @functools.wraps(copy)
    def copy_whole(src_path, dst_path, overwrite=False):
        if not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        part = f"{dst_path}.tmp"
        done = copy(src_path, part, overwrite=True)
        PathManager.rename(part, dst_path)
        return done

    PathManager.copy = staticmethod(copy_whole)
