"""Continuing with ``--lr-scheduler reduce_lr_on_plateau``: its learning rates stay the same.

At the end of an epoch, fairseq saves the checkpoint before it tells the scheduler about the
validation. A training run that continues from there would never count that validation, and
``--lr-patience`` would begin again.
"""

from typing import Any

from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule as Schedule,
)

from .patches import Tier, patched

# The entry of the state with the number of validations without an improvement, as torch calls it.
WAITED = "num_bad_epochs"


@patched(Schedule, "state_dict", Tier.EXTRA)
def state_dict(original: Any, self: Schedule) -> dict[str, Any]:
    """Save the count of ``--lr-patience`` as well."""
    return {**original(self), WAITED: self.lr_scheduler.num_bad_epochs}


@patched(Schedule, "load_state_dict", Tier.EXTRA)
def load_state_dict(original: Any, self: Schedule, state_dict: dict[str, Any]) -> None:
    """Restore the count of ``--lr-patience``, which earlier checkpoints do not have."""
    original(self, state_dict)
    self.lr_scheduler.num_bad_epochs = state_dict.get(WAITED, 0)


def count_last_validation(cfg: Any, trainer: Any, extra_state: dict[str, Any] | None) -> None:
    """Tell the scheduler about the validation at the end of the last epoch.

    Args:
        cfg: fairseq's options of checkpoints.
        trainer: the trainer of the training run, after it has loaded the checkpoint.
        extra_state: that of the checkpoint; None without one.
    """
    # Without the state of an optimizer, the updates are counted from 0, and the scheduler is new.
    if extra_state is None or cfg.reset_lr_scheduler or not trainer.get_num_updates():
        return
    place, value = extra_state["train_iterator"], extra_state.get("val_loss")
    if place.get("iterations_in_epoch") == 0 and isinstance(value, int | float):
        trainer.lr_step(place["epoch"] - 1, value)
