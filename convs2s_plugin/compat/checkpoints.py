"""Checkpoints: loaded as data only; written whole or not at all."""

import argparse
import errno
import os
import re
import stat
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.optim import FairseqOptimizer
from omegaconf import DictConfig, OmegaConf

from convs2s.checkpoints.files import (
    UNREADABLE,
    allow_plain_data,
    load_checkpoint,
    save_checkpoint,
    unreadable_checkpoint,
)
from convs2s.checkpoints.folders import SAFETENSORS
from convs2s.checkpoints.networks import check_no_files
from convs2s.checkpoints.sizes import check_packed, check_unpacked
from convs2s.checkpoints.weights import check_finite, check_finite_state, check_weights
from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_path

from .dictionaries import check_training
from .patches import Tier, install_for, is_installed, patched, step

# The errors of a file for which there is no room.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# Files that a training run writes and reads, and their names until they are complete.
CHECKPOINT = re.compile(r"(checkpoint.*|crash)\.pt")
PARTIAL = re.compile(r"(checkpoint.*|crash)\.pt\.partial")
AFTERWARDS = (
    "The checkpoints before it are whole: free some space, or save fewer of them "
    "(--no-epoch-checkpoints, --keep-last-epochs), and start the same command again, which "
    "continues from the newest."
)


step(Tier.NEEDED)(allow_plain_data)


@patched(checkpoint_utils, "load_checkpoint_to_cpu", Tier.NEEDED)
def load_checkpoint_to_cpu(original: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Replace torch's errors about damaged checkpoints with a UserError that names the file.

    torch advises loading the file with ``weights_only=False``, which runs code from it. If the
    model is one of this package, the changes of ``Tier.EXTRA`` are made. With these, the weights
    are checked, and the model is built without the files that its training started with.
    """
    if path.endswith(SAFETENSORS):
        return _read_folder(path, *args, **kwargs)
    check_packed(path)
    try:
        state = original(path, *args, **kwargs)
    except UNREADABLE as error:
        if not os.path.exists(path):
            raise
        raise unreadable_checkpoint(path, error) from error
    check_unpacked(state, path)
    _check_entries(path, state)
    options = state.get("args") or (state.get("cfg") or {}).get("model")
    install_for(ARCH_MODEL_REGISTRY.get(getattr(options, name, None)) for name in ("arch", "_name"))
    if is_installed(Tier.EXTRA):
        _leave_out_files(path, state)
        check_weights(state["model"], path)
        check_finite(state["model"], path)
        check_training(state, path)
    return state


def _read_folder(
    path: str, arg_overrides: Any = None, load_on_all_ranks: bool = False
) -> dict[str, Any]:
    """What ``convs2s export`` wrote, in the form of fairseq's checkpoints."""
    state = load_checkpoint(path)
    state["cfg"] = OmegaConf.create(state["cfg"])
    if arg_overrides is not None:
        checkpoint_utils.overwrite_args_by_name(state["cfg"], arg_overrides)
    upgraded: dict[str, Any] = checkpoint_utils._upgrade_state_dict(state)
    return upgraded


def _check_entries(path: str, state: Any) -> None:
    """Check that a checkpoint of any model has weights and options.

    Raises:
        UserError: if it does not.
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


def _leave_out_files(path: str, state: Any) -> None:
    """Let a trained model need nothing but its checkpoint.

    fairseq would read the files of pre-trained embeddings once more, and then replace them with
    the weights.

    Raises:
        UserError: if the layers of the model are in a file.
    """
    for options in (state.get("args"), (state.get("cfg") or {}).get("model")):
        entries = vars(options) if isinstance(options, argparse.Namespace) else options
        if not isinstance(entries, dict | DictConfig):
            continue
        check_no_files(entries, path)
        for side in ("encoder", "decoder"):
            # fairseq's Transformer may have separate options for each side.
            own = entries[side] if side in entries else None
            for part, name in ((entries, f"{side}_embed_path"), (own, "embed_path")):
                if isinstance(part, dict | DictConfig) and name in part:
                    part[name] = None


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


@patched(FairseqOptimizer, "load_state_dict", Tier.EXTRA)
def load_state_dict(original: Any, self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse to continue from the state of an optimizer that is infinite or not a number.

    The weights may be finite if the training run ended before its next update.
    """
    advice = "Use an earlier checkpoint, or start with another state (--reset-optimizer)."
    check_finite_state(state_dict, "The checkpoint", advice)
    return original(self, state_dict, *args, **kwargs)


@patched(checkpoint_utils, "torch_persistent_save", Tier.EXTRA)
def torch_persistent_save(original: Any, obj: Any, filename: str, async_write: bool = False) -> Any:
    """Write each checkpoint whole or not at all, and say in one sentence why it cannot be written.

    fairseq tries three times to write a checkpoint, and leaves an incomplete file if it fails.
    """
    if async_write or not PathManager.supports_rename(filename):
        return original(obj, filename, async_write)
    try:
        save_checkpoint(obj, filename)
    except UserError as error:
        raise UserError(f"{error} {AFTERWARDS}") from error


@patched(PathManager, "copy", Tier.EXTRA)
def copy(original: Any, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy a checkpoint in one step, so that a killed training run can always be resumed.

    fairseq writes a checkpoint to one file, and then copies it over ``checkpoint_last.pt`` and
    others; a process that is killed during the copy would leave an incomplete file. If there is no
    room for the new file beside the old one, the old one is removed first.
    """
    if not PathManager.supports_rename(dst_path):
        return original(src_path, dst_path, overwrite=overwrite)
    try:
        return _copy_whole(original, src_path, dst_path)
    except UserError as error:
        has_room = not isinstance(error.__cause__, OSError) or error.__cause__.errno not in NO_ROOM
        if has_room or not os.path.isfile(dst_path):
            raise
        os.remove(dst_path)
        return _copy_whole(original, src_path, dst_path)


def _copy_whole(copy_file: Any, src_path: str, dst_path: str) -> Any:
    try:
        with atomic_path(dst_path) as partial:
            return copy_file(src_path, partial, overwrite=True)
    except UserError as error:
        raise UserError(f"{error} {AFTERWARDS}") from error.__cause__


@patched(checkpoint_utils, "verify_checkpoint_directory", Tier.EXTRA)
def verify_checkpoint_directory(original: Any, save_dir: str) -> None:
    """Check the folder of the checkpoints before training.

    fairseq writes to a file ``dummy`` in it, which it removes even if it was there before.
    """
    check_folder(save_dir)


def check_folder(save_dir: str) -> None:
    """Check that checkpoints can be written to a folder.

    Raises:
        UserError: if they cannot, or a device, a pipe or a folder has the name of one.
    """
    try:
        os.makedirs(save_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=save_dir):
            pass
        names = sorted(os.listdir(save_dir))
    except OSError as error:
        raise UserError(
            f"{save_dir} cannot be written (--save-dir): {error.strerror or error}."
        ) from error
    for name in names:
        path = os.path.join(save_dir, name)
        if CHECKPOINT.fullmatch(name) and os.path.exists(path) and not os.path.isfile(path):
            raise UserError(
                f"{path} has the name of a checkpoint, but is not a plain file: remove it, or "
                "choose another --save-dir."
            )
        if PARTIAL.fullmatch(name) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise UserError(
                f"{path} has the name of a checkpoint that is being written, but is not a "
                "plain file: remove it, or choose another --save-dir."
            )
