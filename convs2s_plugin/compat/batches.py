"""Batches of an epoch: all sentences are in them, and a resumed training run has the same ones."""

import hashlib
import inspect
import re
from typing import Any

import numpy as np
from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask

from convs2s.common.errors import UserError

from .patches import Tier, patched

# The name of the digest of the batches in the state of an iterator, and of the attribute with it.
DIGEST, ATTRIBUTE = "batches", "_convs2s_digest"


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
def batch_by_size(
    original: Any,
    indices: Any,
    num_tokens_fn: Any,
    num_tokens_vec: Any = None,
    max_tokens: int | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Put all sentences of a dataset into batches; refuse those that are too long in one sentence.

    After version 0.12.2, fairseq drops the last batch, in validation and generation too, if its
    size is not a multiple of ``--required-batch-size-multiple`` (default 8).
    """
    try:
        batches = original(indices, num_tokens_fn, num_tokens_vec, max_tokens, *args, **kwargs)
    except AssertionError as error:
        if "should not exceed max_tokens" not in str(error):
            raise
        sizes = [num_tokens_fn(index) for index in indices]
        longest = int(np.argmax(sizes))
        raise UserError(
            f"Sentence {indices[longest]} (counted from 0) has {sizes[longest]} tokens on its "
            f"longer side, end of sentence included, but a batch has at most {max_tokens} "
            "(--max-tokens, in validation --max-tokens-valid): give at least "
            f"{sizes[longest]}, or split or remove such sentences."
        ) from error
    num_sentences = sum(map(len, batches))
    if num_sentences == len(indices) or kwargs.get("fixed_shapes") is not None:
        return batches
    return [*batches, indices[num_sentences:]]


@patched(EpochBatchIterator, "state_dict", Tier.EXTRA)
def state_dict(original: Any, self: EpochBatchIterator) -> dict[str, Any]:
    """Add a digest of the batches to a checkpoint in the middle of an epoch."""
    state = original(self)
    if state["iterations_in_epoch"] > 0:
        state[DIGEST] = _digest(self)
    return state


@patched(EpochBatchIterator, "load_state_dict", Tier.EXTRA)
def load_state_dict(original: Any, self: EpochBatchIterator, state: dict[str, Any]) -> None:
    """Refuse to continue an epoch with other batches.

    fairseq skips as many batches as were done, so some sentences of the epoch would be lost and
    others repeated. Checkpoints without a digest are compared by their options.
    """
    changed = state.get("changed_options", [])
    if state.get("iterations_in_epoch", 0) > 0:
        same = state[DIGEST] == _digest(self) if DIGEST in state else not changed
        if not same:
            raise _other_batches(state["epoch"], changed)
    try:
        original(self, state)
    except RuntimeError as error:
        if not re.search("dataloader mismatch", str(error)):
            raise
        raise _other_batches(state["epoch"], changed) from error


def _other_batches(epoch: int, changed: list[str]) -> UserError:
    reason = f"it was written with {', '.join(changed)}" if changed else "the data have changed"
    again = "give the same options until the epoch is over" if changed else "use the same data"
    return UserError(
        f"The checkpoint is in the middle of epoch {epoch}, and its batches are not those of this "
        f"training run: {reason}. Some sentences would be skipped, and others repeated. Either "
        f"{again}, or add --reset-dataloader to begin at epoch 1 with all data."
    )


def _digest(iterator: EpochBatchIterator) -> str:
    """A digest of the batches of an epoch, of their order, and of their distribution to workers."""
    found = getattr(iterator, ATTRIBUTE, None)
    batches = iterator.frozen_batches
    if found is not None and found[0] is batches:
        return found[1]
    order = (iterator.num_shards, iterator.seed, getattr(iterator, "grouped_shuffling", False))
    digest = hashlib.blake2b(repr(order).encode(), digest_size=16)
    digest.update(np.array([len(batch) for batch in batches], np.int64).tobytes())
    for batch in batches:
        digest.update(np.asarray(batch, np.int64).tobytes())
    setattr(iterator, ATTRIBUTE, (batches, digest.hexdigest()))
    return digest.hexdigest()
