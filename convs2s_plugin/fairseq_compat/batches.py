"""Batches: the same after a restart, and every sentence in one of them."""

import functools
import inspect

from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask


def resume_with_the_same_batches() -> None:
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


def keep_the_last_batch() -> None:
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
