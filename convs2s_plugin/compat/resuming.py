"""Resuming a training run: from the newest whole checkpoint, alone in its folder."""

import copy
import logging
import os
import re
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager

from convs2s.checkpoints.files import is_cut_off, num_updates
from convs2s.common.errors import UserError
from convs2s.common.plain_files import check_plain

from . import training
from .changed_options import parse_dictionary
from .checkpoints import check_folder
from .dictionaries import training_of
from .ended_runs import restore_patience
from .locking import lock
from .patches import Tier, patched
from .plateaus import count_last_validation
from .starting import forget_best
from .validation import check_metrics, check_translations

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"
# Options that name a checkpoint for a training run to start with.
FILES = ("restore_file", "finetune_from_model", "continue_once")
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


@patched(checkpoint_utils, "load_checkpoint", Tier.EXTRA)
def load_checkpoint(original: Any, cfg: Any, trainer: Any, **options: Any) -> Any:
    """Continue from the newest whole checkpoint if ``checkpoint_last.pt`` is missing or incomplete.

    fairseq would start again, or fail. A folder or a pipe in place of a checkpoint, which fairseq
    ignores, and a second training run in the same folder are refused. ``--stop-time-hours`` does
    not count the time of another training run, which fairseq takes from its checkpoint, and
    ``--ema-update-freq`` continues its count. The validation at the end of an epoch counts for the
    learning rate.
    """
    forget_best()
    training.keep_only(trainer.task, trainer._lr_scheduler)
    check_translations(trainer)
    check_metrics(trainer)
    _check_files(cfg, trainer.checkpoint_suffix)
    parse_dictionary("optimizer-overrides", cfg.optimizer_overrides)
    if trainer.data_parallel_rank == 0 and not cfg.no_save:
        # fairseq-hydra-train looks at the folder before the task or the model is there.
        check_folder(cfg.save_dir)
        lock(cfg.save_dir)
    if cfg.restore_file == LAST and not trainer.checkpoint_suffix:
        newest = newest_checkpoint(cfg.save_dir)
        if newest is not None:
            logger.warning(
                f"{os.path.join(cfg.save_dir, LAST)} is missing or incomplete: training continues "
                f"from {newest}, the newest whole checkpoint of the folder"
            )
            cfg = copy.deepcopy(cfg)
            cfg.restore_file, cfg.finetune_from_model = newest, None
    begins = _begins_from_a_model(cfg, trainer.checkpoint_suffix)
    with training_of(trainer.task):
        found = original(cfg, trainer, **options)
    training.restore_count_of_averages(trainer)
    check_translations(trainer)
    if begins:
        trainer._previous_training_time = 0
    else:
        restore_patience(cfg, trainer, found[0])
        count_last_validation(cfg, trainer, found[0])
    return found


def _check_files(cfg: Any, suffix: str) -> None:
    """Check the checkpoints that a training run may start with.

    Raises:
        UserError: if one is not a file, or missing, where fairseq would start again and overwrite
            what is there; or if options exclude each other.
    """
    for name in FILES:
        path = getattr(cfg, name, None)
        if path and os.path.isdir(path):
            raise UserError(
                f"{_option(name)} is {path}, a folder: give a checkpoint, such as "
                f"{path}/checkpoint_best.pt."
            )
        if path:
            check_plain(path, "a checkpoint")
    last = os.path.join(cfg.save_dir, LAST.replace(".pt", f"{suffix}.pt"))
    is_first = not PathManager.exists(last)
    given = [name for name in FILES[1:] if getattr(cfg, name, None)]
    if cfg.restore_file != LAST:
        restored = _check_restored(cfg, suffix)
        if given:
            raise UserError(f"--restore-file and {_option(given[0])} exclude each other: omit one.")
        if not is_first and not os.path.samefile(last, restored):
            logger.warning(
                f"training starts from --restore-file {restored}, and will replace "
                f"{last}; to continue from that, omit --restore-file"
            )
    elif is_first:
        for name in given:
            if not PathManager.exists(getattr(cfg, name)):
                raise UserError(f"There is no checkpoint {getattr(cfg, name)} ({_option(name)}).")
    resets = [_option(name) for name in RESETS if getattr(cfg, name)]
    if cfg.finetune_from_model and resets:
        raise UserError(
            f"--finetune-from-model resets everything but the weights: omit {' and '.join(resets)}."
        )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _check_restored(cfg: Any, suffix: str) -> str:
    """The file of --restore-file.

    Raises:
        UserError: if it does not exist: fairseq would start again over what is there.
    """
    file: str = cfg.restore_file.replace(".pt", f"{suffix}.pt")
    if PathManager.exists(file):
        return file
    inside = os.path.join(cfg.save_dir, cfg.restore_file)
    advice = "omit it to start again"
    if os.path.isfile(inside):
        advice = f"do you mean {inside}? Names do not refer to files in --save-dir"
    raise UserError(f"There is no checkpoint {file} (--restore-file): {advice}.")


def _begins_from_a_model(cfg: Any, suffix: str) -> bool:
    """Whether a training run starts with the model of a checkpoint, but not its meters."""
    if cfg.reset_meters or cfg.finetune_from_model is None or cfg.restore_file != LAST:
        return bool(cfg.reset_meters)
    last = os.path.join(cfg.save_dir, LAST.replace(".pt", f"{suffix}.pt"))
    return not PathManager.exists(last) and getattr(cfg, "continue_once", None) is None


def newest_checkpoint(folder: str) -> str | None:
    """The checkpoint to continue from instead of ``checkpoint_last.pt``.

    Args:
        folder: the folder of a training run.
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


@patched(distributed_utils, "_broadcast_object_slow", Tier.NEEDED)
def _broadcast_object_slow(
    original: Any, obj: Any, src_rank: int, group: Any, dist_device: Any
) -> Any:
    """Let one worker send a checkpoint to the others, as fairseq does when a training run resumes.

    fairseq reads what was sent with ``torch.load``, which has refused the options in it since
    version 2.6. The data does not come from a file, but from the worker that read the checkpoint.
    """
    if distributed_utils.use_xla():
        return original(obj, src_rank, group, dist_device)
    sent = [obj]
    torch.distributed.broadcast_object_list(sent, src_rank, group, dist_device)
    return sent[0]
