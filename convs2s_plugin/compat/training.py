"""Training and validation: workers, averages, alignments, what schedulers are told.

fairseq notifies learning-rate schedulers only of the validation at the end of an epoch, but tasks
of every validation. A task with ``ReportsValidations`` passes the notification on to listeners.
"""

import functools
import math
import weakref
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils, trainer
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment as Criterion,
)
from fairseq.models.ema.ema import EMA
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf, open_dict

from convs2s.common.errors import UserError

from .patches import Tier, patched

# The tasks that report validations, and who is notified of them.
_tasks: weakref.WeakSet = weakref.WeakSet()
_listeners: weakref.WeakSet = weakref.WeakSet()
# The entry of a batch that only takes the place of one that a worker does not have.
REPEATED = "convs2s_repeated"


class ReportsValidations:
    """A mixin for fairseq tasks; it precedes the task among the base classes."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._first_subset = False
        _tasks.add(self)

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Note that a validation begins; fairseq calls this method at every validation."""
        super().begin_valid_epoch(epoch, model)  # type: ignore[misc]
        self._first_subset = True

    def post_validate(self, model, stats: dict[str, Any], meters) -> None:
        """Notify the listeners if this is the first subset of a validation.

        fairseq calls this method after each subset of ``--valid-subset``.

        Args:
            model: the validated model.
            stats: metrics over all workers, and ``num_updates``.
            meters: unused.
        """
        if self._first_subset:
            self._first_subset = False
            for listener in list(_listeners):
                listener.validated(stats)


def keep_only(task: Any, scheduler: Any) -> None:
    """Forget the tasks and schedulers of earlier training runs of this process.

    Args:
        task, scheduler: those of the training run that begins; None for a scheduler that is not
            there yet.
    """
    for known, kept in ((_tasks, task), (_listeners, scheduler)):
        for each in list(known):
            if each is not kept:
                known.discard(each)


def listen(listener) -> None:
    """Call ``listener.validated(stats)`` after each validation, before a checkpoint is saved.

    Raises:
        UserError: if there is no task that reports validations.
    """
    if not _tasks:
        raise UserError(
            "--lr-scheduler reduce_lr_on_validation is notified of validations by the task: add "
            "--task convs2s_translation, or derive your own task from "
            "convs2s_plugin.compat.training.ReportsValidations as well."
        )
    _listeners.add(listener)


def note_epoch(cfg: Any, trainer: Any, epoch_itr: Any) -> None:
    """Tell a scheduler that depends on it how many updates an epoch has, and how many are done.

    Args:
        cfg, trainer, epoch_itr: as fairseq's ``train`` gets them.
    """
    scheduler, frequencies = trainer.lr_scheduler, cfg.optimization.update_freq
    if hasattr(scheduler, "note_epoch"):
        epoch = epoch_itr.next_epoch_idx
        frequency = frequencies[min(epoch, len(frequencies)) - 1]
        # The batches that were counted last may be those of the epoch before.
        done = epoch_itr.iterations_in_epoch if epoch == epoch_itr.epoch else 0
        scheduler.note_epoch(math.ceil(len(epoch_itr) / frequency), done // frequency)


@patched(trainer.Trainer, "train_step", Tier.EXTRA)
def train_step(
    original: Any, self: trainer.Trainer, samples: list[Any], raise_oom: bool = False
) -> Any:
    """Count the batches of an update in which a worker has fewer than the others.

    fairseq lets it repeat a batch without a gradient, so that all workers take part in the same
    collective operations. If that is the last one, fairseq does not count its other batches either,
    though the update has their gradients.
    """
    real = [sample for sample in samples if sample]
    if not real or samples[-1]:
        return original(self, samples, raise_oom)
    repeated = {**real[-1], REPEATED: True}
    step = self.task.train_step
    self.task.train_step = functools.partial(_uncounted_if_repeated, step)
    try:
        return original(self, [sample or repeated for sample in samples], raise_oom)
    finally:
        del self.task.train_step


def _uncounted_if_repeated(step: Any, sample: dict[str, Any], *args: Any, **options: Any) -> Any:
    """The ``train_step`` of a task; a repeated batch has no gradient, no size and no log."""
    if REPEATED not in sample:
        return step(sample, *args, **options)
    loss, size, log = step(sample, *args, **{**options, "ignore_grad": True})
    # Workers add up the same entries.
    zeros = {
        name: torch.zeros_like(value) if torch.is_tensor(value) else 0
        for name, value in log.items()
    }
    return loss, size * 0, zeros


def restore_count_of_averages(trainer: Any) -> None:
    """Continue the count of ``--ema-update-freq``, which fairseq begins again at each start.

    Args:
        trainer: the trainer of a training run, after it has loaded a checkpoint, if there is one.
    """
    # Without a checkpoint, the averages are made later: of the weights after the first update.
    if trainer._ema is not None:
        frequency = max(1, trainer.cfg.ema.ema_update_freq)
        trainer._ema.update_freq_counter = trainer.get_num_updates() % frequency


@patched(trainer.Trainer, "lr_step_update", Tier.EXTRA)
def lr_step_update(original: Any, self: trainer.Trainer) -> Any:
    """Tell a scheduler how long training has taken, as --stop-time-hours counts it.

    After an update, this is the mean of all workers, so that they have the same learning rate.
    """
    note_time = getattr(self.lr_scheduler, "note_time", None)
    if note_time is not None:
        # Until the first update, each worker has a time of its own.
        is_shared = self.data_parallel_world_size == 1 or self._cumulative_training_time is not None
        # fairseq's value may be a tensor.
        note_time(
            float(self.cumulative_training_time() if is_shared else self._previous_training_time)
        )
    return original(self)


@patched(Criterion, "forward", Tier.NEEDED)
def forward(
    original: Any, self: Any, model: Any, sample: dict[str, Any], reduce: bool = True
) -> Any:
    """Let fairseq's criterion train the attention of the decoders of this package.

    They compute attention only if it is requested, and fairseq's criterion does not request it.
    """
    aligns_tokens = getattr(getattr(model, "decoder", None), "aligns_tokens", None)
    if aligns_tokens is not None and sample.get("alignments") is not None:
        net_input = {**sample["net_input"], "need_attn": True}
        if aligns_tokens:
            net_input["target_tokens"] = sample["target"]
        sample = {**sample, "net_input": net_input}
    return original(self, model, sample, reduce)


@patched(Criterion, "compute_alignment_loss", Tier.NEEDED)
def compute_alignment_loss(
    original: Any, self: Any, sample: dict[str, Any], net_output: Any
) -> Any:
    """Refuse models without attention in one sentence."""
    if net_output[1]["attn"][0] is None:
        raise UserError(
            "--criterion label_smoothed_cross_entropy_with_alignment needs attention to the "
            "source, but this model has none: use --criterion label_smoothed_cross_entropy."
        )
    return original(self, sample, net_output)


@patched(EMA, "_step_internal", Tier.NEEDED)
def _step_internal(original: Any, self: Any, new_model: Any, updates: Any = None) -> None:
    """Average a weight with several names once per update; fairseq does so once per name."""
    averages = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    seen: set[int] = set()
    unique = {}
    for name, value in new_model.state_dict().items():
        place = averages[name].data_ptr() if name in averages else 0
        if place not in seen:
            unique[name] = value
        if place:
            seen.add(place)
    original(self, SimpleNamespace(state_dict=lambda: unique), updates)


@patched(trainer, "_catalog_shared_params", Tier.EXTRA)
def _catalog_shared_params(
    original: Any, module: Any, memo: Any = None, prefix: str = ""
) -> list[list[str]] | None:
    """Leave out the names of weights that are None, which fairseq takes for one shared weight."""
    found = original(module, memo, prefix)
    if memo is not None:
        # It calls itself for each module, and returns something for the outermost one only.
        return None
    return [names for names in found if trainer._get_module_by_path(module, names[0]) is not None]


@patched(checkpoint_utils, "overwrite_args_by_name", Tier.NEEDED)
def overwrite_args_by_name(original: Any, cfg: DictConfig, overrides: dict[str, Any]) -> None:
    """Let ``fairseq-validate --criterion`` replace the criterion of a checkpoint.

    fairseq ignores the option. Options that both criterions have keep their values, unless the
    command line gives others.
    """
    name, saved = overrides.get("criterion"), cfg.get("criterion")
    known = REGISTRIES["criterion"]["dataclass_registry"]
    if isinstance(saved, DictConfig) and name in known and saved.get("_name") != name:
        chosen = OmegaConf.structured(known[name])
        for key in chosen:
            if key in saved:
                chosen[key] = saved[key]
        with open_dict(chosen), open_dict(cfg):
            chosen["_name"] = name
            cfg["criterion"] = chosen
    original(cfg, overrides)
