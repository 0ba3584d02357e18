"""Ctrl-C saves: an interrupted fairseq-train ends after its update, with a checkpoint.

fairseq ends at once, so all updates since the last checkpoint are lost. Training runs with several
workers still do, since each of them would have to end with the same update.
"""

import copy
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from convs2s.common.logs import DONE

from .locking import unlock
from .patches import Tier, patched

# The exit code of a program that Ctrl-C ended.
INTERRUPTED = 130
SAVING = (
    "Interrupted: saving after this update, so that the same command continues from there. Ctrl-C "
    "again ends training at once."
)

_interrupted = threading.Event()
# Whether a block of ``interruptible`` is running.
_handles = False


@patched("fairseq_cli.train", "main", Tier.EXTRA)
def main(original: Any, cfg: Any, *more: Any, **options: Any) -> None:
    """Train, and unlock the folder; after Ctrl-C, exit with ``INTERRUPTED``."""
    try:
        with interruptible(cfg):
            original(cfg, *more, **options)
    finally:
        unlock()
    exit_if_interrupted()


@contextmanager
def interruptible(cfg: Any) -> Iterator[None]:
    """Let Ctrl-C end training after its update in this block, if it can be saved then.

    ``fairseq-hydra-train`` is in ``main`` already when it imports this package: there, the block
    is an epoch.
    """
    global _handles
    if not _handles:
        _interrupted.clear()
    saves = not (cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints)
    alone = cfg.distributed_training.distributed_world_size == 1
    in_main_thread = threading.current_thread() is threading.main_thread()
    if _handles or not (saves and alone and in_main_thread):
        yield
        return
    before = signal.signal(signal.SIGINT, _interrupt)
    logger = logging.getLogger("fairseq_cli.train")
    logger.addFilter(_is_true)
    _handles = True
    try:
        yield
    finally:
        _handles = False
        logger.removeFilter(_is_true)
        signal.signal(signal.SIGINT, before)


def exit_if_interrupted() -> None:
    """Exit with ``INTERRUPTED`` if Ctrl-C has ended training, and nothing remains to be done."""
    if _interrupted.is_set() and not _handles:
        unlock()
        sys.exit(INTERRUPTED)


def _is_true(record: logging.LogRecord) -> bool:
    """Whether a message may be logged: an interrupted training run is not done.

    Otherwise, readers of the log would mistake it for a complete one.
    """
    return not (_interrupted.is_set() and record.getMessage().startswith(DONE))


def _interrupt(number: int, frame: Any) -> None:
    """Ask for the end of training; the second time, end it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _interrupted.set()
    print(SAVING, file=sys.stderr, flush=True)


@patched("fairseq_cli.train", "validate_and_save", Tier.EXTRA)
def validate_and_save(
    original: Any,
    cfg: Any,
    trainer: Any,
    task: Any,
    epoch_itr: Any,
    valid_subsets: list[str],
    end_of_epoch: bool,
) -> Any:
    """End training after this update if it was interrupted.

    The model is validated only at the end of an epoch, as it would have been otherwise.
    """
    if _interrupted.is_set():
        cfg = copy.deepcopy(cfg)
        cfg.optimization.max_update = max(1, trainer.get_num_updates())
        cfg.dataset.disable_validation |= not end_of_epoch
    return original(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
