"""Every difference between fairseq and torch versions, in one place."""

import argparse
import functools
import inspect
import pickle

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.file_io import PathManager
from fairseq.tasks import FairseqTask

from .checkpoints import unreadable


def prepare() -> None:
    """Make this fairseq and this torch work together; called once, at import."""
    _allow_plain_data()
    _explain_unreadable_checkpoints()
    _copy_checkpoints_whole()
    _resume_with_the_same_batches()
    _keep_the_last_batch()


# What fairseq's parser makes of --replace-unk without a file, and what its Python interface says.
REPLACE_UNK_WITHOUT_FILE = ("@@ ", "", True)


def leave_unknown_words_to_the_task() -> None:
    """Keep fairseq's commands from replacing unknown words, which the task does in the search.

    They would do it from alignments that they have not got, or cannot read, and from raw text
    that binarised data does not have.
    """
    utils.load_align_dict = lambda replace_unk: None


def _allow_plain_data() -> None:
    """Let torch load what fairseq-train saves with ``weights_only=True``.

    Two kinds of objects in such a checkpoint are not torch's own: ``argparse.Namespace``, and
    with ``--eval-bleu`` arrays of numbers. Loading them sets attributes and runs nothing.
    """
    array = np.zeros(0)
    numbers = [type(np.dtype(kind)) for kind in (np.int64, np.float64)]
    torch.serialization.add_safe_globals(
        [argparse.Namespace, array.__reduce__()[0], np.ndarray, np.dtype, *numbers]
    )


def _explain_unreadable_checkpoints() -> None:
    """Turn torch's errors about a damaged file into a sentence that names the file."""
    load = checkpoint_utils.load_checkpoint_to_cpu

    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, *args, **kwargs):
        try:
            return load(path, *args, **kwargs)
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise unreadable(path, error) from error

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def _copy_checkpoints_whole() -> None:
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


def _resume_with_the_same_batches() -> None:
    """Let a resumed training see the batches that an uninterrupted one sees.

    fairseq after 0.12.2 makes its batches once, with the epoch at which the process starts as part
    of the seed, so that sentences of one length fall into other batches after a restart.
    """
    if "reuse_dataloader" not in inspect.signature(EpochBatchIterator).parameters:
        return
    make = FairseqTask.get_batch_iterator

    @functools.wraps(make)
    def get_batch_iterator(self, dataset, *args, **kwargs):
        made_once = (
            "epoch" in kwargs
            and dataset not in self.dataset_to_epoch_iter
            and self.can_reuse_epoch_itr(dataset)
            and not kwargs.get("disable_iterator_cache")
            and not kwargs.get("update_epoch_batch_itr")
            and not getattr(self.cfg, "rebuild_batches", False)
        )
        if not made_once:
            return make(self, dataset, *args, **kwargs)
        epoch = max(kwargs["epoch"], 1)
        iterator = make(self, dataset, *args, **{**kwargs, "epoch": 1})
        dataset.set_epoch(epoch)
        iterator.epoch = epoch
        return iterator

    FairseqTask.get_batch_iterator = get_batch_iterator


def _keep_the_last_batch() -> None:
    """Let no sentence fall out of a data set.

    fairseq after 0.12.2 drops the last batch where its size is not a multiple of
    ``--required-batch-size-multiple`` (8 by default), in validation and generation too.
    """
    make = data_utils.batch_by_size

    @functools.wraps(make)
    def batch_by_size(indices, *args, **kwargs):
        batches = make(indices, *args, **kwargs)
        kept = sum(map(len, batches))
        if kept == len(indices) or kwargs.get("fixed_shapes") is not None:
            return batches
        return [*batches, indices[kept:]]

    data_utils.batch_by_size = batch_by_size
