"""``--lr-scheduler reduce_lr_on_validation``: plateaus of validations, not of epochs."""

import logging
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from convs2s.common.errors import UserError
from convs2s.models.options import option

from .compat.training import listen

logger = logging.getLogger(__name__)


@dataclass
class ReduceLROnValidationConfig(FairseqDataclass):
    """When and by how much to reduce the learning rate; warm-up as in fairseq's schedulers."""

    lr_shrink: float = option(0.8, "factor of the learning rate at a reduction")
    lr_patience: int = option(
        3, "reduce the learning rate after this many validations in a row without improvement"
    )
    lr_threshold: float = option(
        0.0,
        "an improvement on the best value so far must be larger than this, in the "
        "unit of --best-checkpoint-metric (fairseq's losses are in bits: 0.01 nats are 0.0144)",
    )
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

    Every validation after the warm-up counts, also those within an epoch. If there are several
    validation subsets, the first one counts. Elbayad et al. (2018, section 4) multiply the learning
    rate by 0.8 after three validations, one every 8,000 updates, that do not improve the loss by
    more than 0.01.

    Args:
        cfg: the options above.
        optimizer: a fairseq optimizer.
    Raises:
        UserError: if an option is out of range, or the task does not report validations.
    """

    def __init__(self, cfg: ReduceLROnValidationConfig, optimizer: FairseqOptimizer):
        super().__init__(cfg, optimizer)
        check(cfg)
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
        value = float(stats[self.cfg.best_checkpoint_metric])
        if self.improves(value):
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        if self.waited == self.cfg.lr_patience:
            self.waited = 0
            self.reductions += 1
            lr = self.step_update(stats["num_updates"])
            logger.info(
                f"{self.cfg.lr_patience} validation(s) did not improve "
                f"{self.cfg.best_checkpoint_metric} on {self.best}: the learning rate is now {lr:g}"
            )

    def improves(self, value: float) -> bool:
        """Whether a value improves on the best one so far by more than the threshold."""
        if self.best is None:
            return True
        gain = value - self.best if self.cfg.maximize_best_checkpoint_metric else self.best - value
        return gain > self.cfg.lr_threshold

    def step(self, epoch: int, val_loss: Optional[float] = None) -> float:
        """Do nothing at the end of an epoch: ``validated`` reduces the learning rate."""
        return self.optimizer.get_lr()

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate after an update, and return it."""
        lr, warmup = self.cfg.lr[0], self.cfg.warmup_updates
        if num_updates < warmup:
            start = max(self.cfg.warmup_init_lr, 0.0)
            lr = start + (lr - start) * num_updates / warmup
        self.optimizer.set_lr(lr * self.cfg.lr_shrink**self.reductions)
        return self.optimizer.get_lr()

    def state_dict(self) -> Dict[str, Any]:
        """The state that a checkpoint stores."""
        return {"best": self.best, "waited": self.waited, "reductions": self.reductions}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restore the state that a checkpoint stores.

        Raises:
            UserError: if the state is that of another scheduler.
        """
        if set(state_dict) != set(self.state_dict()):
            raise UserError(
                "The checkpoint was written with another --lr-scheduler than "
                "reduce_lr_on_validation: add --reset-lr-scheduler to continue with this one."
            )
        self.best = state_dict["best"]
        self.waited, self.reductions = state_dict["waited"], state_dict["reductions"]


def check(cfg: ReduceLROnValidationConfig) -> None:
    """Check that all options are in range.

    Raises:
        UserError: if one is not; names the option and the range.
    """
    for name, value, allowed, fits in (
        ("--lr", cfg.lr, "one value", len(cfg.lr) == 1),
        ("--lr-shrink", cfg.lr_shrink, "more than 0 and less than 1", 0 < cfg.lr_shrink < 1),
        ("--lr-patience", cfg.lr_patience, "at least 1", cfg.lr_patience >= 1),
        ("--lr-threshold", cfg.lr_threshold, "at least 0", cfg.lr_threshold >= 0),
        ("--warmup-updates", cfg.warmup_updates, "at least 0", cfg.warmup_updates >= 0),
    ):
        if not fits:
            raise UserError(f"{name} is {value}, but must be {allowed}.")
