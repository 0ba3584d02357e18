"""Resuming a training run: from the newest whole checkpoint, alone in its folder, same batches."""

import copy
import fcntl
import inspect
import logging
import os
import re
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.tasks import FairseqTask

from convs2s.checkpoints.files import check_no_device, is_cut_off, num_updates
from convs2s.common.errors import UserError

from .checkpoints import check_folder
from .dictionaries import training_of
from .patches import Tier, patched

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"
# Options with a checkpoint that a training run begins with.
FILES = ("restore_file", "finetune_from_model", "continue_once")
# Folders that this process has locked, and their open files.
_locked: dict[str, int] = {}


@patched(checkpoint_utils, "load_checkpoint", Tier.EXTRA)
def load_checkpoint(original: Any, cfg: Any, trainer: Any, **options: Any) -> Any:
    """Continue from the newest whole checkpoint if ``checkpoint_last.pt`` is missing or incomplete.

    fairseq would begin again, or fail. A folder or a pipe in place of a checkpoint, which fairseq
    ignores, and a second training run in the same folder are refused. ``--stop-time-hours`` does
    not count the time of another training run, which fairseq takes from its checkpoint.
    """
    for name in FILES:
        path = getattr(cfg, name, None)
        if path and os.path.isdir(path):
            raise UserError(
                f"--{name.replace('_', '-')} is {path}, a folder: give a checkpoint, such as "
                f"{path}/checkpoint_best.pt."
            )
        if path:
            check_no_device(path)
    if cfg.restore_file != LAST:
        _check_restored(cfg, trainer.checkpoint_suffix)
    if trainer.data_parallel_rank == 0 and not cfg.no_save:
        # fairseq-hydra-train looks at the folder before the task or the model is there.
        check_folder(cfg.save_dir)
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
    with training_of(trainer.task):
        found = original(cfg, trainer, **options)
    if begins:
        trainer._previous_training_time = 0
    return found


def _check_restored(cfg: Any, suffix: str) -> None:
    """Refuse a --restore-file that does not exist: fairseq would begin anew over what is there."""
    file = cfg.restore_file.replace(".pt", f"{suffix}.pt")
    if PathManager.exists(file):
        return
    inside = os.path.join(cfg.save_dir, cfg.restore_file)
    advice = "leave it out to begin anew"
    if os.path.isfile(inside):
        advice = f"do you mean {inside}? Names are not those of files in --save-dir"
    raise UserError(f"There is no checkpoint {file} (--restore-file): {advice}.")


def _begins_from_a_model(cfg: Any, suffix: str) -> bool:
    """Whether a training run begins with the model of a checkpoint, but not its meters."""
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


def lock(folder: str) -> None:
    """Keep other training runs out of a folder until this process ends.

    File systems without locks are not protected.

    Raises:
        UserError: if another training run uses the folder.
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
    # Workers that read batches may outlive a killed process for a moment, and keep no lock.
    os.register_at_fork(after_in_child=lambda: _release(folder, descriptor))


def _release(folder: str, descriptor: int) -> None:
    """Close the file of a lock in a forked process; the lock of its parent stays."""
    if _locked.pop(folder, None) is not None:
        os.close(descriptor)


@patched(distributed_utils, "_broadcast_object_slow", Tier.NEEDED)
def _broadcast_object_slow(
    original: Any, obj: Any, src_rank: int, group: Any, dist_device: Any
) -> Any:
    """Let one worker send a checkpoint to the others, as fairseq does when a training run resumes.

    fairseq reads what was sent with ``torch.load``, which since version 2.6 refuses the options in
    it. It does not come from a file, but from the worker that has read the checkpoint.
    """
    if distributed_utils.use_xla():
        return original(obj, src_rank, group, dist_device)
    sent = [obj]
    torch.distributed.broadcast_object_list(sent, src_rank, group, dist_device)
    return sent[0]


@patched(
    FairseqTask,
    "get_batch_iterator",
    Tier.NEEDED,
    when="reuse_dataloader" in inspect.signature(EpochBatchIterator).parameters,
)
def get_batch_iterator(original: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
    """Give a resumed training run the batches of an uninterrupted one.

    After version 0.12.2, fairseq builds the batches once, with a seed that depends on the epoch in
    which the process starts. After a restart, sentences of the same length are therefore
    distributed over the batches differently. Here the batches are always those of epoch 1.
    """
    built_once = (
        "epoch" in kwargs
        and dataset not in self.dataset_to_epoch_iter
        and self.can_reuse_epoch_itr(dataset)
        and not kwargs.get("disable_iterator_cache")
        and not kwargs.get("update_epoch_batch_itr")
        and not getattr(self.cfg, "rebuild_batches", False)
    )
    if not built_once:
        return original(self, dataset, *args, **kwargs)
    epoch = max(kwargs["epoch"], 1)
    iterator = original(self, dataset, *args, **{**kwargs, "epoch": 1})
    dataset.set_epoch(epoch)
    iterator.epoch = epoch
    return iterator


@patched(data_utils, "batch_by_size", Tier.NEEDED)
def batch_by_size(original: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Put all sentences of a dataset into batches.

    After version 0.12.2, fairseq drops the last batch, in validation and generation too, if its
    size is not a multiple of ``--required-batch-size-multiple`` (default 8).
    """
    batches = original(indices, *args, **kwargs)
    num_sentences = sum(map(len, batches))
    if num_sentences == len(indices) or kwargs.get("fixed_shapes") is not None:
        return batches
    return [*batches, indices[num_sentences:]]
