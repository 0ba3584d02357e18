"""Loading checkpoints safely; ``saving`` writes them."""

import argparse
import functools
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from omegaconf import DictConfig

from convs2s.checkpoints.files import UNREADABLE, check_no_device, unreadable_checkpoint
from convs2s.common.errors import UserError


def allow_plain_data() -> None:
    """Allow the classes in fairseq's checkpoints for ``torch.load`` with ``weights_only=True``.

    Besides tensors and plain containers, the checkpoints contain ``argparse.Namespace`` and, with
    ``--eval-bleu``, NumPy arrays of numbers. Loading these executes no code from the file.
    """
    reconstruct_array = np.zeros(0).__reduce__()[0]
    dtypes = [type(np.dtype(kind)) for kind in (np.int64, np.float64)]
    allowed: list[Any] = [argparse.Namespace, reconstruct_array, np.ndarray, np.dtype, *dtypes]
    torch.serialization.add_safe_globals(allowed)


def explain_unreadable_checkpoints() -> None:
    """Replace torch's errors about damaged checkpoints by a UserError that names the file."""
    original = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(original)
    def load_checkpoint_to_cpu(path, *args, **kwargs):
        check_no_device(path)
        try:
            state = original(path, *args, **kwargs)
        except UNREADABLE as error:
            if not os.path.exists(path):
                raise
            raise unreadable_checkpoint(path, error) from error
        _check_entries(path, state)
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def _check_entries(path: str, state: Any) -> None:
    """Check that a checkpoint of any model has weights and options.

    Raises:
        UserError: if it has not.
    """
    if not isinstance(state.get("model"), dict):
        raise UserError(f"{path} is not a checkpoint of fairseq-train: it has no weights.")
    cfg = state.get("cfg")
    if cfg is None:
        return
    for name in ("model", "task"):
        options = cfg[name] if isinstance(cfg, DictConfig) and name in cfg else None
        if isinstance(options, DictConfig):
            is_valid = "_name" not in options or isinstance(options["_name"], str | None)
        else:
            is_valid = isinstance(options, argparse.Namespace)
        if not is_valid:
            raise UserError(
                f"{path} is not a checkpoint of fairseq-train: it has no options of its {name}."
            )


# What hydra says about the way in which fairseq calls it.
_HYDRA = (
    r"\s*(hydra\.experimental\.|The version_base parameter|'\S+' is validated against ConfigStore|"
    r"In '\S+': Usage of deprecated keyword|The strict flag in the compose API)"
)


@contextmanager
def without_hydra_warnings() -> Iterator[None]:
    """Hide the warnings of hydra when fairseq converts the options of an old checkpoint."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_HYDRA)
        yield


@contextmanager
def memory_mapped() -> Iterator[None]:
    """Map the checkpoints that fairseq loads into memory, instead of reading them.

    The state of the optimizer, most of a checkpoint, is then never read. Checkpoints of torch
    before 1.6 cannot be mapped.
    """
    original = torch.load

    def load(file, *args, **kwargs):
        path = getattr(file, "name", None)
        if isinstance(path, str) and zipfile.is_zipfile(path):
            return original(path, *args, mmap=True, **kwargs)
        return original(file, *args, **kwargs)

    torch.load = load  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.load = original
