"""The checkpoints in the folder of a model; needs no torch."""

import os
from collections.abc import Callable
from pathlib import Path

from ..common.errors import UserError

# The newest checkpoint of a training run, from which it continues.
LAST = "checkpoint_last.pt"
# Tried in this order, in the folder of a model and in CHECKPOINTS below it. `convs2s train` writes
# the first one at the end of a training run.
CHECKPOINT_FILES = ("average.pt", "checkpoint_best.pt", "model.pt", "model.safetensors", LAST)
CHECKPOINTS = "checkpoints"
# The ending of weights that `convs2s export` writes.
SAFETENSORS = ".safetensors"
# The fast copy of a model, which `convs2s fast` writes beside it.
FAST = "fast.pt"
# The graphs that `convs2s export-onnx` and `compile` write to a folder.
ENCODER_GRAPH, STEP_GRAPH = "encoder.onnx", "decoder_step.onnx"


def split_paths(value: str, fast: bool = False) -> list[str]:
    """The checkpoints in the value of an option: a file, a folder, or several, as in fairseq.

    Args:
        value: the paths.
        fast: whether to take the fast copies of the models, which are in folders (False).
    Raises:
        UserError: if there is no such file, or a folder has no checkpoint.
    """
    paths = map(Path, split_names(value))
    return [str(fast_copy(path) if fast else find_checkpoints(path)[0]) for path in paths]


def fast_copy(path: Path) -> Path:
    """The fast copy of the model in a folder.

    Raises:
        UserError: if there is none, or if it is older than the model.
    """
    if not path.is_dir():
        raise UserError(
            f"--fast uses {FAST} in a folder, but {path} is not a folder: omit --fast, or give the "
            "folder of the model."
        )
    model = find_checkpoints(path)[0]
    found = model.parent / FAST
    if not found.is_file():
        raise UserError(f"There is no {found}: make it with `convs2s fast`, or omit --fast.")
    if found.stat().st_mtime < model.stat().st_mtime:
        raise UserError(
            f"{found} is older than {model}: remake it with `convs2s fast`, or name it with "
            "--path and without --fast if it is the right one."
        )
    return found


def split_names(value: str, exists: Callable[[str], bool] = os.path.exists) -> list[str]:
    """Split several paths at colons, but keep a path that exists, such as the folder ``run_12:30``.

    Args:
        value: the paths.
        exists: whether there is a path.
    """
    parts = value.split(os.pathsep)
    names = []
    while parts:
        sizes = range(len(parts), 0, -1)
        size = next((n for n in sizes if exists(os.pathsep.join(parts[:n]))), 1)
        names.append(os.pathsep.join(parts[:size]))
        del parts[:size]
    return names


def find_checkpoints(path: Path, names: str | None = None) -> list[Path]:
    """The checkpoints of a model.

    Args:
        path: a folder or a checkpoint.
        names: files in the folder, or in ``checkpoints`` below it, separated by colons; None for
            the first of ``CHECKPOINT_FILES``.
    Raises:
        UserError: if there is no such file.
    """
    if path.exists() and not path.is_dir() and names is None:
        return [path]
    if not path.is_dir():
        what = "checkpoint or folder" if names is None else "folder"
        raise UserError(f"There is no {what} {path}.")
    places = [path, path / CHECKPOINTS]
    if names is None:
        for place in places:
            for name in CHECKPOINT_FILES:
                if (place / name).is_file():
                    return [place / name]
        raise UserError(
            f"There is no checkpoint in {path}: none of {', '.join(CHECKPOINT_FILES)} is there or "
            f"in {path / CHECKPOINTS}. Name the file itself (in Python: checkpoint_file)."
        )
    found = []
    for name in split_names(names, lambda name: any((place / name).is_file() for place in places)):
        files = [place / name for place in places if (place / name).is_file()]
        if not files:
            raise UserError(f"There is no checkpoint {name} in {path} (checkpoint_file).")
        found.append(files[0])
    return found


def saved_checkpoints(folder: Path) -> dict[str, int]:
    """The names of the checkpoints in a folder, each with its number of updates."""
    # Only this needs torch.
    from .files import num_updates

    found = {path.name: num_updates(str(path)) for path in sorted(folder.glob("checkpoint*.pt"))}
    return {name: number for name, number in found.items() if number is not None}
