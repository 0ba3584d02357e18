"""Continuing a training: from the newest whole checkpoint, and alone in its folder."""

import copy
import fcntl
import functools
import logging
import os
import re
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from convs2s.checkpoints.files import check_no_device, is_cut_off, num_updates
from convs2s.common.errors import UserError

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"
# Options with a checkpoint that a training begins with.
FILES = ("restore_file", "finetune_from_model", "continue_once")
# Folders that this process has locked, and their open files.
_locked: dict[str, int] = {}


def continue_from_newest_checkpoint() -> None:
    """Continue from the newest whole checkpoint if ``checkpoint_last.pt`` is missing or incomplete.

    fairseq would begin again, or fail. A folder or a pipe in place of a checkpoint, which fairseq
    ignores, and a second training in the same folder are refused. ``--stop-time-hours`` does not
    count the time of another training, which fairseq takes from its checkpoint.
    """
    original = checkpoint_utils.load_checkpoint

    @functools.wraps(original)
    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> Any:
        for name in FILES:
            path = getattr(cfg, name, None)
            if path and os.path.isdir(path):
                raise UserError(
                    f"--{name.replace('_', '-')} is {path}, a folder: give a checkpoint, such as "
                    f"{path}/checkpoint_best.pt."
                )
            if path:
                check_no_device(path)
        if trainer.data_parallel_rank == 0 and not cfg.no_save:
            lock(cfg.save_dir)
        if cfg.restore_file == LAST and not trainer.checkpoint_suffix:
            newest = newest_checkpoint(cfg.save_dir)
            if newest is not None:
                logger.warning(
                    f"{os.path.join(cfg.save_dir, LAST)} is missing or incomplete: the training "
                    f"continues from {newest}, the newest whole checkpoint of the folder"
                )
                cfg = copy.deepcopy(cfg)
                cfg.restore_file, cfg.finetune_from_model = newest, None
        begins = _begins_from_a_model(cfg, trainer.checkpoint_suffix)
        found = original(cfg, trainer, **options)
        if begins:
            trainer._previous_training_time = 0
        return found

    checkpoint_utils.load_checkpoint = load_checkpoint


def _begins_from_a_model(cfg: Any, suffix: str) -> bool:
    """Whether a training begins with the model of a checkpoint, but not with its meters."""
    if cfg.reset_meters or cfg.finetune_from_model is None or cfg.restore_file != LAST:
        return bool(cfg.reset_meters)
    last = os.path.join(cfg.save_dir, LAST.replace(".pt", f"{suffix}.pt"))
    return not PathManager.exists(last) and getattr(cfg, "continue_once", None) is None


def newest_checkpoint(folder: str) -> str | None:
    """The checkpoint to continue from instead of ``checkpoint_last.pt``.

    Args:
        folder: the folder of a training.
    Returns:
        The whole checkpoint after the most updates; None if there is none, or if
        ``checkpoint_last.pt`` is there and not cut off.
    """
    last = os.path.join(folder, LAST)
    if not os.path.isdir(folder) or os.path.isfile(last) and not is_cut_off(last):
        return None
    found = []
    for name in sorted(os.listdir(folder)):
        if re.fullmatch(r"checkpoint(\d+|_\d+_\d+|_best)\.pt", name):
            path = os.path.join(folder, name)
            updates = num_updates(path)
            if updates is not None:
                found.append((updates, path))
    return max(found)[1] if found else None


def lock(folder: str) -> None:
    """Keep other trainings out of a folder until this process ends.

    File systems without locks are not protected.

    Raises:
        UserError: if another training uses the folder.
    """
    folder = os.path.realpath(folder)
    if folder in _locked or not os.path.isdir(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"Another training saves its checkpoints in {folder}: wait for its end, or choose "
            "another folder with --save-dir."
        ) from None
    except OSError:
        os.close(descriptor)
        return
    _locked[folder] = descriptor
    # Workers that read batches may outlive a killed training for a moment, and keep no lock.
    os.register_at_fork(after_in_child=lambda: _release(folder, descriptor))


def _release(folder: str, descriptor: int) -> None:
    """Close the file of a lock in a forked process; the lock of its parent stays."""
    if _locked.pop(folder, None) is not None:
        os.close(descriptor)
