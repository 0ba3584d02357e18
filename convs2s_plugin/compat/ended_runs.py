"""Continuing a training run that was killed after its last update: it ends as it would have ended.

Such a run has saved its last checkpoint, but has not yet reported that it is done. fairseq would
make one more update, since it only checks whether to stop after an update.
"""

import inspect
import logging
from typing import Any

from fairseq.trainer import Trainer

from .interrupting import exit_if_interrupted, interruptible
from .patches import Tier, patched
from .training import note_epoch

logger = logging.getLogger(__name__)

# The entry of a checkpoint with the state of --patience: the best value, and how many validations
# have not improved it.
PATIENCE = "early_stopping"
STATE = ("best", "num_runs")


@patched("fairseq_cli.train", "train", Tier.EXTRA)
def train(original: Any, cfg: Any, trainer: Any, task: Any, epoch_itr: Any) -> Any:
    """Train an epoch, unless the checkpoint that the run continues from is its last one."""
    trainer.early_stopping = inspect.unwrap(original).__globals__["should_stop_early"]
    vars(trainer.early_stopping).update(vars(trainer).pop("restored_patience", {}))
    reason = _reason_to_stop(cfg, trainer)
    if reason is None:
        note_epoch(cfg, trainer, epoch_itr)
        with interruptible(cfg):
            found = original(cfg, trainer, task, epoch_itr)
        exit_if_interrupted()
        return found
    logger.info(f"the training run had already ended: {reason}")
    return [None], True


def _reason_to_stop(cfg: Any, trainer: Any) -> str | None:
    """Why a run ended before it was continued; None if it did not."""
    options, updates = cfg.optimization, trainer.get_num_updates()
    if options.max_update and updates >= options.max_update:
        return f"num_updates: {updates} >= max_update: {options.max_update}"
    hours = trainer._previous_training_time / 3600
    if 0 < options.stop_time_hours < hours:
        return f"cumulative_training_time: {hours} > stop_time_hours: {options.stop_time_hours}"
    missed = getattr(trainer.early_stopping, "num_runs", 0)
    if 0 < cfg.checkpoint.patience <= missed:
        return f"{missed} validations without an improvement >= patience: {cfg.checkpoint.patience}"
    return None


@patched(Trainer, "save_checkpoint", Tier.EXTRA)
def save_checkpoint(
    original: Any, self: Any, filename: str, extra_state: dict[str, Any], *more: Any
) -> Any:
    """Save the state of --patience as well; fairseq counts from 0 again after an interruption."""
    stop = vars(getattr(self, "early_stopping", save_checkpoint))
    if self.cfg.checkpoint.patience > 0 and all(name in stop for name in STATE):
        extra_state[PATIENCE] = {name: stop[name] for name in STATE}
    return original(self, filename, extra_state, *more)


def restore_patience(cfg: Any, trainer: Any, extra_state: dict[str, Any] | None) -> None:
    """Restore the state of --patience when the training run begins.

    Args:
        cfg: fairseq's options of checkpoints.
        trainer: the trainer of the training run.
        extra_state: that of the checkpoint; None without one.
    """
    saved = (extra_state or {}).get(PATIENCE)
    if not isinstance(saved, dict) or cfg.reset_meters or cfg.reset_optimizer:
        return
    if all(type(saved.get(name)) in (int, float) for name in STATE):
        trainer.restored_patience = {name: saved[name] for name in STATE}
