"""Batches: a resumed training has the same ones, and no sentence is left out."""

import functools
import inspect

from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask


def resume_with_same_batches() -> None:
    """Give a resumed training the batches of an uninterrupted one.

    After version 0.12.2, fairseq builds the batches once, with a seed that depends on the epoch in
    which the process starts. After a restart, sentences of the same length are therefore
    distributed over the batches differently. Here the batches are always those of epoch 1.
    """
    if "reuse_dataloader" not in inspect.signature(EpochBatchIterator).parameters:
        return
    original = FairseqTask.get_batch_iterator

    @functools.wraps(original)
    def get_batch_iterator(self, dataset, *args, **kwargs):
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

    FairseqTask.get_batch_iterator = get_batch_iterator


def keep_last_batch() -> None:
    """Put all sentences of a dataset into batches.

    After version 0.12.2, fairseq drops the last batch, in validation and generation too, if its
    size is not a multiple of ``--required-batch-size-multiple`` (default 8).
    """
    original = data_utils.batch_by_size

    @functools.wraps(original)
    def batch_by_size(indices, *args, **kwargs):
        batches = original(indices, *args, **kwargs)
        num_sentences = sum(map(len, batches))
        if num_sentences == len(indices) or kwargs.get("fixed_shapes") is not None:
            return batches
        return [*batches, indices[num_sentences:]]

    data_utils.batch_by_size = batch_by_size
