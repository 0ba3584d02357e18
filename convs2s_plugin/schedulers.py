"""Schedules of the learning rate: ``reduce_lr_on_validation`` and ``budgeted``."""

import logging
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from convs2s.common.errors import UserError
from convs2s.models.options import option

from .compat.training import listen
from .compat.validation import LOW

logger = logging.getLogger(__name__)


@dataclass
class ReduceLROnValidationConfig(FairseqDataclass):
    """When and by how much to reduce the learning rate; the warm-up is that of fairseq."""

    lr_shrink: float = option(0.8, "factor of the learning rate at a reduction")
    lr_patience: int = option(
        3, "reduce the learning rate after this many validations in a row without improvement"
    )
    lr_threshold: float = option(
        0.0,
        "an improvement on the best value so far must be larger than this, in the unit of the "
        "metric (fairseq's losses are in bits: 0.01 nats are 0.0144)",
    )
    lr_relative_threshold: bool = option(
        False, "--lr-threshold is a share of the best value so far"
    )
    lr_metric: Optional[str] = option(
        None,
        "the metric that must improve, if it is not --best-checkpoint-metric: loss, nll_loss or "
        "ppl",
    )
    lr_anneal: bool = option(
        False, "after the first reduction, reduce the learning rate at every validation"
    )
    min_lr: float = option(0.0, "smallest learning rate after a reduction")
    warmup_updates: int = option(0, "increase the learning rate linearly during this many updates")
    warmup_init_lr: float = option(
        -1, "learning rate at the start of the warm-up; 0 if this is negative"
    )
    lr: List[float] = II("optimization.lr")
    best_checkpoint_metric: str = II("checkpoint.best_checkpoint_metric")
    maximize_best_checkpoint_metric: bool = II("checkpoint.maximize_best_checkpoint_metric")


@register_lr_scheduler("reduce_lr_on_validation", dataclass=ReduceLROnValidationConfig)
class ReduceLROnValidation(FairseqLRScheduler):
    """Reduce the learning rate after several validations without improvement.

    Every validation after the warm-up counts, including those within an epoch. If there are several
    validation subsets, the first one counts. Elbayad et al. (2018, section 4) multiply the learning
    rate by 0.8 after three validations, one every 8,000 updates, that do not improve the loss by
    more than 0.01. Gehring et al. (2017, section 4.2) divide it by ten after each epoch once the
    perplexity has stopped improving (``--lr-anneal``).

    Args:
        cfg: the options above.
        optimizer: a fairseq optimizer.
    Raises:
        UserError: if an option is out of range, or the task does not report validations.
    """

    def __init__(self, cfg: ReduceLROnValidationConfig, optimizer: FairseqOptimizer):
        super().__init__(cfg, optimizer)
        check_ranges(
            ("--lr", cfg.lr, "one value", len(cfg.lr) == 1),
            ("--lr-shrink", cfg.lr_shrink, "more than 0 and less than 1", 0 < cfg.lr_shrink < 1),
            ("--lr-patience", cfg.lr_patience, "at least 1", cfg.lr_patience >= 1),
            ("--lr-threshold", cfg.lr_threshold, "at least 0", cfg.lr_threshold >= 0),
            (
                "--lr-metric",
                cfg.lr_metric,
                f"one of {', '.join(LOW)}",
                cfg.lr_metric in (None, *LOW),
            ),
            ("--min-lr", cfg.min_lr, "at least 0 and at most --lr", 0 <= cfg.min_lr <= cfg.lr[0]),
            ("--warmup-updates", cfg.warmup_updates, "at least 0", cfg.warmup_updates >= 0),
        )
        self.metric = cfg.lr_metric or cfg.best_checkpoint_metric
        self.largest = cfg.maximize_best_checkpoint_metric and cfg.lr_metric is None
        listen(self)
        self.waited = 0
        self.reductions = 0
        self.step_update(0)

    def validated(self, stats: Dict[str, Any]) -> None:
        """Count a validation, and reduce the learning rate if it is due.

        Args:
            stats: metrics of the validation by name, and ``num_updates``.
        """
        if stats["num_updates"] <= self.cfg.warmup_updates:
            return
        value = float(stats[self.metric])
        if self.improves(value):
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        reason = None
        if self.waited >= self.cfg.lr_patience:
            reason = f"{self.waited} validation(s) did not improve {self.metric} on {self.best}"
        elif self.cfg.lr_anneal and self.reductions > 0:
            reason = "--lr-anneal"
        if reason is not None:
            self.waited = 0
            self.reductions += 1
            lr = self.step_update(stats["num_updates"])
            logger.info(f"{reason}: the learning rate is now {lr:g}")

    def improves(self, value: float) -> bool:
        """Whether a value improves on the best one so far by more than the threshold."""
        if self.best is None:
            return True
        gain = value - self.best if self.largest else self.best - value
        unit = abs(self.best) if self.cfg.lr_relative_threshold else 1.0
        return gain > self.cfg.lr_threshold * unit

    def step(self, epoch: int, val_loss: Optional[float] = None) -> float:
        """Do nothing at the end of an epoch: ``validated`` reduces the learning rate."""
        return self.optimizer.get_lr()

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate after an update, and return it."""
        lr, warmup = self.cfg.lr[0], self.cfg.warmup_updates
        if num_updates < warmup:
            start = max(self.cfg.warmup_init_lr, 0.0)
            lr = start + (lr - start) * num_updates / warmup
        least = min(lr, self.cfg.min_lr)
        self.optimizer.set_lr(max(least, lr * self.cfg.lr_shrink**self.reductions))
        return self.optimizer.get_lr()

    def state_dict(self) -> Dict[str, Any]:
        """The state that a checkpoint stores."""
        return {"best": self.best, "waited": self.waited, "reductions": self.reductions}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restore the state that a checkpoint stores.

        Raises:
            UserError: if the state belongs to another scheduler.
        """
        check_state(self, state_dict, "reduce_lr_on_validation")
        self.best = state_dict["best"]
        self.waited, self.reductions = state_dict["waited"], state_dict["reductions"]


@dataclass
class BudgetedConfig(FairseqDataclass):
    """The warm-up; the options that end training also end the learning rate."""

    warmup_updates: int = option(0, "increase the learning rate linearly during this many updates")
    lr: List[float] = II("optimization.lr")
    max_update: int = II("optimization.max_update")
    max_epoch: int = II("optimization.max_epoch")
    stop_time_hours: float = II("optimization.stop_time_hours")


@register_lr_scheduler("budgeted", dataclass=BudgetedConfig)
class Budgeted(FairseqLRScheduler):
    """Decrease the learning rate linearly to zero at the end of training.

    The end is that of ``--max-update``, ``--max-epoch`` or ``--stop-time-hours``, whichever comes
    first. The updates of an epoch are counted when it ends, so ``--max-epoch`` counts from the
    second epoch on; those of a single epoch are counted before it. After ``--reset-dataloader``,
    which begins at epoch 1 again, the decrease goes on over the updates so far and all epochs that
    follow. Budgeted Training (Li, Yumer and Ramanan 2020, section 4, linear).

    Args:
        cfg: the options above.
        optimizer: a fairseq optimizer.
    Raises:
        UserError: if an option is out of range, or none ends training.
    """

    def __init__(self, cfg: BudgetedConfig, optimizer: FairseqOptimizer):
        super().__init__(cfg, optimizer)
        check_ranges(
            ("--lr", cfg.lr, "one value", len(cfg.lr) == 1),
            ("--warmup-updates", cfg.warmup_updates, "at least 0", cfg.warmup_updates >= 0),
        )
        if max(cfg.max_update, cfg.max_epoch, cfg.stop_time_hours) <= 0:
            raise UserError(
                "--lr-scheduler budgeted needs to know when training ends: give --max-epoch, "
                "--max-update or --stop-time-hours."
            )
        self.updates = self.epoch = 0
        self.updates_per_epoch = 0.0
        # The epoch from which epochs are counted, and the updates before it.
        self.first = (1, 0)
        # Updates of the epoch that begins, and how many of them are done; None until it is noted.
        self.length = 0
        self.done: Optional[int] = None
        # When training began, on the clock of time.monotonic; until the trainer notes a time.
        self.start = time.monotonic()
        self.noted: Optional[float] = None
        self.step_update(0)

    def step_begin_epoch(self, epoch: int) -> None:
        """Measure the length of the epochs before this one; fairseq counts from 1.

        A resumed training run begins its epoch again, which changes nothing, unless it has a new
        scheduler or starts again at epoch 1.
        """
        begins_anew = epoch == self.epoch and self.done == 0
        is_new = self.epoch == 0 and self.done is not None
        if epoch < self.epoch or begins_anew or is_new:
            self.first = (epoch, self.updates - (self.done or 0))
            # The epochs before it may have had other lengths.
            if self.first[1] > 0:
                self.updates_per_epoch = self.length or self.updates_per_epoch
        elif epoch > max(self.epoch, self.first[0]):
            first_epoch, before = self.first
            self.updates_per_epoch = (self.updates - before) / (epoch - first_epoch)
        self.epoch = epoch

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate after an update, and return it."""
        self.updates = num_updates
        warmup = self.cfg.warmup_updates
        warm = min(1.0, num_updates / warmup) if warmup else 1.0
        self.optimizer.set_lr(self.cfg.lr[0] * warm * (1 - self.progress()))
        return self.optimizer.get_lr()

    def note_epoch(self, updates: int, done: int = 0) -> None:
        """Note the number of updates of an epoch, before it begins or is resumed.

        Args:
            updates: their number.
            done: how many of them were made before an interruption.
        """
        self.length, self.done = updates, done
        if self.cfg.max_epoch == 1:
            self.updates_per_epoch = updates

    def note_time(self, seconds: float) -> None:
        """Note how long training has taken, with what came before an interruption.

        The trainer calls this before ``step_update``, with the same value in all workers.
        """
        self.noted = seconds

    @property
    def seconds(self) -> float:
        """How long training has taken."""
        return time.monotonic() - self.start if self.noted is None else self.noted

    def progress(self) -> float:
        """The share of the training run that has passed, from 0 to 1."""
        first_epoch, before = self.first
        num_epochs = self.cfg.max_epoch + 1 - first_epoch if self.cfg.max_epoch > 0 else 0
        of_epochs = num_epochs * self.updates_per_epoch
        passed = (
            (self.updates, self.cfg.max_update),
            (self.updates, before + of_epochs if of_epochs else 0),
            (self.seconds, self.cfg.stop_time_hours * 3600),
        )
        return min(1.0, max((done / total for done, total in passed if total > 0), default=0.0))

    def state_dict(self) -> Dict[str, Any]:
        """The state that a checkpoint stores."""
        return {
            "epoch": self.epoch,
            "updates": self.updates,
            "updates_per_epoch": self.updates_per_epoch,
            "first": self.first,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restore the state that a checkpoint stores.

        Raises:
            UserError: if the state belongs to another scheduler.
        """
        # Earlier versions did not save it.
        state_dict = {"first": (1, 0), **state_dict}
        check_state(self, state_dict, "budgeted")
        self.first = state_dict["first"]
        self.epoch, self.updates = state_dict["epoch"], state_dict["updates"]
        self.updates_per_epoch = state_dict["updates_per_epoch"]
        self.start = time.monotonic() - state_dict["seconds"]


def check_state(scheduler: FairseqLRScheduler, state: Dict[str, Any], name: str) -> None:
    """Check that a checkpoint has the state of this scheduler.

    Raises:
        UserError: if it has another one.
    """
    if set(state) != set(scheduler.state_dict()):
        raise UserError(
            f"The checkpoint was written with another --lr-scheduler than {name}: add "
            "--reset-lr-scheduler to continue with this one."
        )


def check_ranges(*options: Tuple[str, Any, str, bool]) -> None:
    """Check that options are in range.

    Args:
        options: name, value, what is allowed, and whether the value is.
    Raises:
        UserError: if one is not; the error names the option and the range.
    """
    for name, value, allowed, fits in options:
        if not fits:
            raise UserError(f"{name} is {value}, but must be {allowed}.")
