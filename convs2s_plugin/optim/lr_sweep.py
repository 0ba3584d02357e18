"""The LR range test: train for a few updates while the learning rate grows exponentially."""

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from fairseq import tasks, utils
from fairseq.data import iterators
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import OmegaConf, open_dict

from convs2s.common.errors import UserError

from .lr_suggestion import Point

# The sweep ends if the smoothed loss is this many times as high as the lowest one so far.
STOP_FACTOR = 1.5
# Weight of the past in the running mean that decides about the end.
RUNNING_MEAN = 0.8


class _SweepTrainer(Trainer):
    """fairseq's trainer, without the checkpoint that it writes if a gradient is not finite."""

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Write nothing."""


def sweep(
    cfg: FairseqConfig,
    min_lr: float,
    max_lr: float,
    num_updates: int,
    report: Callable[[Point], None] = lambda point: None,
) -> list[Point]:
    """Train a model with fairseq's trainer while the learning rate grows exponentially.

    The model is new, or that of ``--finetune-from-model``. The learning rate of update i, counted
    from 0, is ``min_lr * (max_lr / min_lr) ** (i / (num_updates - 1))``. Precision, gradient
    clipping, ``--update-freq``, criterion and optimizer are those of the training; its learning
    rate and schedule are not used. Nothing is validated or saved. If the training uses several
    GPUs, one GPU accumulates their batches.

    Args:
        cfg: the configuration of the training; it is changed.
        min_lr, max_lr: first and last learning rate.
        num_updates: number of updates, at least 2.
        report: is called after each update.
    Returns:
        One point for each update. The sweep ends early if the loss explodes or is not finite; the
        last point then has that loss.
    Raises:
        UserError: if there are no training data.
    """
    _simplify(cfg, min_lr)
    metrics.reset()
    np.random.seed(cfg.common.seed)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    trainer = _SweepTrainer(
        cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    )
    pretrained = cfg.checkpoint.finetune_from_model
    if pretrained:
        if not os.path.isfile(pretrained):
            raise UserError(f"There is no checkpoint {pretrained} (--finetune-from-model).")
        trainer.load_checkpoint(
            pretrained,
            reset_optimizer=True,
            reset_lr_scheduler=True,
            reset_meters=True,
        )
    points: list[Point] = []
    mean, lowest = 0.0, math.inf
    for batches in _batches(trainer, cfg.optimization.update_freq[0]):
        lr = min_lr * (max_lr / min_lr) ** (len(points) / (num_updates - 1))
        loss = _update(trainer, batches, lr)
        if loss is None:
            continue
        points.append(Point(lr, loss))
        report(points[-1])
        mean = RUNNING_MEAN * mean + (1 - RUNNING_MEAN) * loss
        unbiased = mean / (1 - RUNNING_MEAN ** len(points))
        lowest = min(lowest, unbiased)
        if not unbiased <= STOP_FACTOR * lowest or len(points) == num_updates:
            break
    return points


def _simplify(cfg: FairseqConfig, lr: float) -> None:
    """Leave out of a configuration what a sweep does not need."""
    with open_dict(cfg):
        cfg.lr_scheduler = OmegaConf.create({"_name": "fixed"})
        cfg.optimization.lr = [lr]
        workers = cfg.distributed_training.distributed_world_size
        cfg.distributed_training.distributed_world_size = 1
        cfg.optimization.update_freq = [cfg.optimization.update_freq[0] * max(workers, 1)]


def _batches(trainer: Trainer, update_freq: int) -> Iterator[list[Any]]:
    """The batches of each update, epoch after epoch."""
    try:
        epochs = trainer.get_train_iterator(epoch=1)
    except FileNotFoundError as error:
        raise UserError(f"The training data cannot be read: {error}.") from error
    while True:
        shuffle = epochs.next_epoch_idx > trainer.cfg.dataset.curriculum
        grouped = iterators.GroupedIterator(epochs.next_epoch_itr(shuffle=shuffle), update_freq)
        trainer.begin_epoch(epochs.epoch)
        yield from grouped
        epochs = trainer.get_train_iterator(epochs.next_epoch_idx, load_dataset=False)


def _update(trainer: Trainer, batches: list[Any], lr: float) -> float | None:
    """Make one update; its loss, or None if fp16 has skipped it because of an overflow."""
    trainer.optimizer.set_lr(lr)
    try:
        output = trainer.train_step(batches, raise_oom=True)
    except FloatingPointError:
        return math.nan
    return None if output is None else float(output["loss"])
