"""Checkpoints of intervals of updates: saved wherever an interval ends."""

import copy
from typing import Any

from fairseq import checkpoint_utils

from .patches import Tier, patched


class _WithinEpoch:
    """The iterator of an epoch that has ended, for a checkpoint that is named by its updates."""

    def __init__(self, epoch_itr: Any):
        self.epoch, self.state_dict = epoch_itr.epoch, epoch_itr.state_dict

    def end_of_epoch(self) -> bool:
        return False


@patched(checkpoint_utils, "save_checkpoint", Tier.EXTRA)
def save_checkpoint(
    original: Any, cfg: Any, trainer: Any, epoch_itr: Any, val_loss: float | None
) -> Any:
    """Save the checkpoint of an interval that ends with an epoch too, and remove older ones.

    There, fairseq saves only the checkpoint of the epoch, which --keep-last-epochs removes and
    --no-epoch-checkpoints omits, so that --keep-interval-updates would keep others.
    """
    kept = cfg.save_interval_updates > 0 and cfg.keep_interval_updates > 0
    if kept and epoch_itr.end_of_epoch():
        # It comes first: a run that is killed between the two continues from the checkpoint before.
        alone = copy.deepcopy(cfg)
        alone.no_last_checkpoints = True
        alone.keep_best_checkpoints = alone.keep_last_epochs = -1
        original(alone, trainer, _WithinEpoch(epoch_itr), None)
    return original(cfg, trainer, epoch_itr, val_loss)
