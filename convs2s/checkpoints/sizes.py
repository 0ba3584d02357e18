"""A checkpoint takes no more memory than its file: checks before and after it is read.

A file of a few kilobytes can describe gigabytes: by parts that are compressed or overlap, by
tensors that repeat one number, and by options of a huge network.
"""

import os
import zipfile
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..common.errors import UserError
from ..common.plain_files import check_plain
from .legacy.inert_pickle import Inert

ZIP = b"PK\x03\x04"
# What is read has at most this many times the size of its file, plus this many bytes. Weights that
# several layers share are counted for each.
RATIO, MORE = 64, 2**20
# The same for the parameters and buffers of a network, and the numbers in its weights.
MORE_NUMBERS = 2**24


def is_zip(path: str) -> bool:
    """Whether torch takes a plain file as a zip archive."""
    with open(path, "rb") as file:
        return file.read(len(ZIP)) == ZIP


def check_packed(path: str, name: str | None = None) -> None:
    """Check a file before it is read.

    Args:
        path: a checkpoint, which need not exist.
        name: what to call it in an error (default: its path).
    Raises:
        UserError: if it is a pipe or a device, a TorchScript program, or a zip archive that unpacks
            to more than its size.
    """
    check_plain(path, "a checkpoint")
    if not os.path.isfile(path) or not is_zip(path):
        return
    size = os.path.getsize(path)
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        # torch says what is wrong.
        return
    if any(part.filename.endswith("/constants.pkl") for part in parts):
        # torch.load would hand it to torch.jit.load.
        raise UserError(
            f"{name or path} is a TorchScript program, and is therefore not loaded; a checkpoint "
            "of fairseq-train is needed."
        )
    unpacked = sum(part.file_size for part in parts)
    if unpacked > size or any(part.compress_type != zipfile.ZIP_STORED for part in parts):
        raise UserError(
            f"{name or path} is not read: its {size:,} bytes are compressed, and unpack to "
            f"{unpacked:,}; checkpoints are not compressed."
        )


def check_unpacked(content: Any, path: str, name: str | None = None) -> None:
    """Check what was read from a file, before anything is computed with it.

    Args:
        content: plain data, tensors, and ``Inert``.
        path: the file.
        name: what to call it in an error (default: its path).
    Raises:
        UserError: if it is much larger than the file.
    """
    size = os.path.getsize(path)
    limit = RATIO * size + MORE
    total, seen, waiting = 0, set(), [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            total += value.numel() * value.element_size()
        elif isinstance(value, np.ndarray):
            total += value.nbytes
        elif isinstance(value, str | bytes | bytearray):
            total += len(value)
        elif id(value) not in seen:
            seen.add(id(value))
            waiting.extend(_parts(value))
        if total > limit:
            raise UserError(
                f"{name or path} is not read: its {size:,} bytes describe data of more than "
                f"{limit:,} bytes, which no model has."
            )


def _parts(value: Any) -> Iterable[Any]:
    """The items of a container."""
    if isinstance(value, Inert):
        return (value.args, value.state, value.items)
    if isinstance(value, Namespace):
        return vars(value).values()
    if isinstance(value, dict):
        return (*value.keys(), *value.values(), *getattr(value, "__dict__", {}).values())
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def check_network(network: torch.nn.Module, weights: dict[str, Tensor], path: str) -> None:
    """Check that a network, built without memory, is not much larger than its weights.

    Args:
        network: on the device "meta".
        weights: those of the checkpoint.
        path: its file, for the error.
    Raises:
        UserError: if it is.
    """
    given = sum(tensor.numel() for tensor in weights.values())
    size = sum(tensor.numel() for tensor in (*network.parameters(), *network.buffers()))
    if size > RATIO * given + MORE_NUMBERS:
        raise UserError(
            f"{path} is damaged: its options describe a network of {size:,} numbers, but its "
            f"weights have {given:,}."
        )
