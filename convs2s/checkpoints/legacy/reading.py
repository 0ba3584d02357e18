"""Checkpoints of any fairseq version: reading them as plain data, and cleaning them."""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...common.errors import UserError
from ..files import unreadable_checkpoint
from ..sizes import check_packed, check_unpacked, is_zip
from ..weights import check_finite, check_finite_state, check_weights
from . import inert_pickle
from .plain_data import LeftOut, plain

# The training history in extra_state.
HISTORY = ("train_meters", "valid_meters", "metrics")
# The optimizer state, in versions of 2017 and later.
OPTIMIZER = ("last_optimizer_state", "optimizer")


class OldCheckpoint(NamedTuple):
    """A checkpoint as plain data.

    Attributes:
        content: its content, without the objects that are not plain data.
        left_out: these objects.
    """

    content: Any
    left_out: list[LeftOut]


def read_old_checkpoint(path: str, name: str | None = None) -> OldCheckpoint:
    """Read a checkpoint of any version of fairseq, without executing anything in it.

    Its tensors stay in the file until they are used, unless it was written by torch before 1.6.

    Args:
        path: the file.
        name: what to call it in an error (default: its path).
    Raises:
        UserError: if the file does not exist or is not a checkpoint, or if a weight is not finite.
    """
    check_packed(path, name)
    if not Path(path).is_file():
        raise UserError(f"There is no file {name or path}.")
    try:
        content = torch.load(
            path,
            map_location="cpu",
            pickle_module=inert_pickle,
            weights_only=False,
            mmap=is_zip(path),
        )
        check_unpacked(content, path, name)
        found = OldCheckpoint(*plain(content))
    except UserError:
        raise
    except Exception as error:
        raise unreadable_checkpoint(path, error, name) from error
    weights = _tensors(found.content)
    check_weights(weights, name or path)
    check_finite(weights, name or path)
    return found


def _tensors(content: Any) -> dict[str, torch.Tensor]:
    """The tensors among the weights of a checkpoint, or in a state dictionary alone."""
    if not isinstance(content, dict):
        return {}
    weights = content.get("model", content)
    if not isinstance(weights, dict):
        return {}
    return {str(key): value for key, value in weights.items() if isinstance(value, torch.Tensor)}


def model_options(checkpoint: Any) -> argparse.Namespace:
    """The options of the model in a checkpoint of any version, and its languages.

    They are empty if it has none.
    """
    if not isinstance(checkpoint, dict):
        return argparse.Namespace()
    cfg = _entries(checkpoint.get("cfg"))
    args = _entries(checkpoint.get("args")) or _entries(cfg.get("model"))
    # fairseq finds the languages in the data and notes them in the options of the task.
    task = _entries(cfg.get("task"))
    for name in ("source_lang", "target_lang"):
        if args.get(name) is None and task.get(name) is not None:
            args[name] = task[name]
    return argparse.Namespace(**args)


def _entries(options: Any) -> dict[str, Any]:
    """A copy of options of either form."""
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    return {str(k): v for k, v in options.items()} if isinstance(options, dict) else {}


def architecture(checkpoint: Any) -> str:
    """The named architecture (``--arch``) of a checkpoint, or "unknown"."""
    args = model_options(checkpoint)
    return str(getattr(args, "arch", None) or getattr(args, "_name", "unknown"))


def clean(
    checkpoint: OldCheckpoint, path: str, drop_optimizer: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Drop the training history, and the optimizer state if asked to.

    Args:
        checkpoint: the checkpoint, of any model of fairseq.
        path: its file, for errors.
        drop_optimizer: whether to drop the optimizer state.
    Returns:
        The checkpoint, and one line for each thing that was dropped.
    Raises:
        UserError: if it is not a checkpoint of fairseq-train, or a weight is not plain data.
    """
    content, left_out = checkpoint
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        found = f": it holds an object of {left_out[0].name}" if left_out else ""
        raise UserError(f"{path} is not a checkpoint of fairseq-train{found}.")
    if not isinstance(content.get("args"), argparse.Namespace) and not content.get("cfg"):
        raise UserError(f"{path} is not a checkpoint of fairseq-train: it has no options.")
    for place, name in left_out:
        if place.startswith("model."):
            raise UserError(
                f"{path} cannot be cleaned: its weight {place[len('model.') :]} is an object of "
                f"{name}, which is not plain data."
            )
    cleaned = dict(content)
    lines = []
    extra = content.get("extra_state")
    places = []
    if isinstance(extra, dict):
        places = [f"extra_state.{key}" for key in HISTORY if key in extra]
        cleaned["extra_state"] = {key: extra[key] for key in extra if key not in HISTORY}
    if places:
        lines.append(f"the training history ({', '.join(places)})")
    if drop_optimizer and _without_optimizer(cleaned):
        lines.append("the optimizer state")
    for key in OPTIMIZER:
        check_finite_state(
            cleaned.get(key), path, "Use an earlier checkpoint, or drop it (--drop-optimizer)."
        )
    for place, name in left_out:
        if not any(place == other or place.startswith(f"{other}.") for other in places):
            lines.append(f"{place}, an object of {name}")
    return cleaned, lines


def _without_optimizer(checkpoint: dict[str, Any]) -> bool:
    """Drop the optimizer state in place, and return whether there was one."""
    found = False
    for key in OPTIMIZER:
        if checkpoint.get(key) is not None:
            checkpoint[key], found = None, True
    history = checkpoint.get("optimizer_history")
    if isinstance(history, list) and all(isinstance(entry, dict) for entry in history):
        # Versions of 2017 kept the state of each optimizer here.
        found = found or any("optimizer" in entry for entry in history)
        checkpoint["optimizer_history"] = [
            {key: value for key, value in entry.items() if key != "optimizer"} for entry in history
        ]
        checkpoint["last_optimizer_state"] = None
    return found
