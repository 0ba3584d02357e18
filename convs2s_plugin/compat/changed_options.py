"""Continuing a training run with other options: it works, or one sentence says what to add.

fairseq compares only the classes of criterion and optimizer, and fails with an assertion. It may
misread the state of another scheduler, and the batches of other options in the middle of an epoch.
"""

import ast
import logging
import math
from collections.abc import Iterator
from typing import Any

from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.optim import lr_scheduler
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from convs2s.common.errors import UserError, nearest

from .ended_runs import PATIENCE
from .patches import Tier, patched
from .plateaus import WAITED

logger = logging.getLogger(__name__)

# Criterions that compute the same loss from the same options.
CROSS_ENTROPIES = {"cross_entropy", "label_smoothed_cross_entropy", "convs2s_cross_entropy"}
# Options of the loss, and their values in a criterion that has none of them.
LOSS_OPTIONS = {"label_smoothing": 0.0, "ignore_prefix_size": 0}
# With those of the second pass, which validation does not make.
TRAINING_OPTIONS = {**LOSS_OPTIONS, "simcut_weight": 0.0, "simcut_p": 0.05, "rdrop_weight": 0.0}
# Options that decide which sentences are in which batch.
BATCH_OPTIONS = {
    "common": ("seed",),
    "dataset": "max_tokens batch_size required_batch_size_multiple train_subset".split(),
    "distributed_training": ("distributed_world_size",),
    "task": (
        "source_lang target_lang upsample_primary truncate_source max_source_positions "
        "max_target_positions num_batch_buckets max_train_words max_length_ratio max_cells"
    ).split(),
}
# Metrics that do not depend on the options of a cross-entropy.
COMPARABLE = ("nll_loss", "ppl", "bleu", "accuracy")
# Entries in the state of a scheduler that count validations without an improvement.
COUNTS = {"waited", WAITED}


@patched(Trainer, "load_checkpoint", Tier.EXTRA)
def load_checkpoint(
    original: Any,
    self: Trainer,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    optimizer_overrides: Any = None,
    reset_meters: bool = False,
) -> Any:
    """Compare the options of a checkpoint with those of the training run, and load it.

    fairseq takes the learning rate from the state of the optimizer, even with
    --reset-lr-scheduler; here, it is then that of the new scheduler.
    """
    read = checkpoint_utils.load_checkpoint_to_cpu

    def read_and_compare(path: str, *args: Any, **kwargs: Any) -> Any:
        state = read(path, *args, **kwargs)
        _compare(path, state, self.cfg, reset_optimizer, reset_lr_scheduler)
        if optimizer_overrides and not reset_optimizer:
            _check_overrides(optimizer_overrides, state.get("last_optimizer_state"))
        return state

    checkpoint_utils.load_checkpoint_to_cpu = read_and_compare
    try:
        found = original(
            self, filename, reset_optimizer, reset_lr_scheduler, optimizer_overrides, reset_meters
        )
    finally:
        checkpoint_utils.load_checkpoint_to_cpu = read
    if found is not None and reset_lr_scheduler and not reset_optimizer:
        self._lr_scheduler = lr_scheduler.build_lr_scheduler(self.cfg.lr_scheduler, self.optimizer)
        self._lr_scheduler.step_update(self.get_num_updates())
        self.lr_step(found["train_iterator"]["epoch"])
    return found


def parse_dictionary(option: str, text: str) -> dict[Any, Any]:
    """Parse an option that is a dictionary as in Python.

    Raises:
        UserError: if it is not.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UserError(
            f"--{option} is {text}, but must be a dictionary as in Python, such as {{'name': 1}}."
        )
    return value


def _check_overrides(overrides: dict[str, Any], optimizer: dict[str, Any] | None) -> None:
    """Check that --optimizer-overrides names only options of the optimizer.

    Raises:
        UserError: if it does not.
    """
    for group in (optimizer or {}).get("param_groups", []):
        options = group.keys() - {"params"}
        for name in overrides.keys() - options:
            raise UserError(
                f"--optimizer-overrides has '{name}', but the optimizer of the checkpoint has only "
                f"{', '.join(sorted(options))}{nearest(name, options)}."
            )


def _compare(
    path: str, state: dict[str, Any], cfg: Any, reset_optimizer: bool, reset_lr_scheduler: bool
) -> None:
    """Compare a checkpoint with the options of a training run that continues it.

    Notes in it what differs where fairseq reads it later: the name of a criterion with the same
    loss, values and counts of validations if they belong to another metric, and other options of
    the batches.

    Raises:
        UserError: if its optimizer or scheduler cannot be continued.
    """
    # fairseq has added what checkpoints of earlier versions lack.
    saved, history, extra = state.get("cfg"), state["optimizer_history"], state["extra_state"]
    if not isinstance(saved, DictConfig):
        return
    if not reset_optimizer and history:
        if state.get("last_optimizer_state") is None:
            logger.warning(
                f"{path} has no state of the optimizer: optimizer and learning rate start again, "
                "and updates are counted from 0"
            )
        else:
            _compare_optimizers(path, saved, cfg, history[-1], reset_lr_scheduler)
    if not _same_measure(saved, cfg, _choice(saved), _choice(cfg)):
        if "best" in extra:
            logger.warning(
                f"the best {saved.checkpoint.best_checkpoint_metric} of {path} does not count for "
                "this training run, which measures something else: checkpoint_best.pt will come "
                "from its next validation"
            )
        for name in ("best", "val_loss", PATIENCE):
            extra.pop(name, None)
    if history and not _same_measure(saved, cfg, _guide(saved), _guide(cfg)):
        _forget_best(history[-1].get("lr_scheduler_state"), cfg)
    extra["train_iterator"]["changed_options"] = [*_changed_batch_options(saved, cfg)]


def _compare_optimizers(
    path: str, saved: DictConfig, cfg: Any, last: dict[str, Any], reset_lr_scheduler: bool
) -> None:
    begin = "add --reset-optimizer to start with its weights and a new optimizer"
    before, now = (getattr(each.get("model"), "right_to_left", None) for each in (saved, cfg))
    if bool(before) != bool(now):
        how, change = ("with", "add") if before else ("without", "omit")
        raise UserError(f"{path} was trained {how} --right-to-left: {change} it, or {begin}.")
    before, now = _name(saved, "optimizer"), _name(cfg, "optimizer")
    if before != now:
        raise UserError(
            f"{path} was written with --optimizer {before}, whose state {now} cannot continue: "
            f"{begin}."
        )
    before, now = _name(saved, "criterion"), _name(cfg, "criterion")
    loss, new_loss = _loss(saved, TRAINING_OPTIONS), _loss(cfg, TRAINING_OPTIONS)
    if before != now:
        if not {before, now} <= CROSS_ENTROPIES or loss != new_loss:
            raise UserError(
                f"{path} was written with --criterion {before}, which has another loss than the "
                f"{now} of this training run: give the same options of the loss, or {begin}."
            )
        last["criterion_name"] = CRITERION_REGISTRY[now].__name__
    for name, value in loss.items():
        if value != new_loss[name]:
            raise UserError(
                f"{path} was written with --{name.replace('_', '-')} {value}, but this training "
                f"run has {new_loss[name]}, which is another loss: give the same value, or {begin}."
            )
    before, now = _name(saved, "lr_scheduler"), _name(cfg, "lr_scheduler")
    if before != now and not reset_lr_scheduler:
        raise UserError(
            f"{path} was written with --lr-scheduler {before}, whose state {now} cannot continue: "
            f"add --reset-lr-scheduler to continue with {now}."
        )


def _name(cfg: Any, kind: str) -> Any:
    return getattr(cfg.get(kind), "_name", None)


def _loss(cfg: Any, defaults: dict[str, Any] = LOSS_OPTIONS) -> dict[str, Any]:
    """The options of a criterion that affect the loss.

    Args:
        cfg: the options of a training run.
        defaults: names of options, and values of those that the criterion does not have.
    """
    values = {name: getattr(cfg.criterion, name, None) for name in defaults}
    if not values.get("simcut_weight"):
        # It has no effect.
        values.pop("simcut_p", None)
    return {name: defaults[name] if value is None else value for name, value in values.items()}


def _choice(cfg: Any) -> tuple[Any, Any]:
    """The metric that chooses the best checkpoint, and whether its largest value is the best."""
    # An exported model has no such options.
    options = cfg.get("checkpoint") or {}
    return (
        options.get("best_checkpoint_metric"),
        options.get("maximize_best_checkpoint_metric"),
    )


def _guide(cfg: Any) -> tuple[Any, Any]:
    """The same for the metric that reduces the learning rate."""
    metric = getattr(cfg.get("lr_scheduler"), "lr_metric", None)
    return _choice(cfg) if metric is None else (metric, False)


def _same_measure(
    saved: DictConfig, cfg: Any, measured: tuple[Any, Any], measures: tuple[Any, Any]
) -> bool:
    """Whether a value of a checkpoint can be compared with those of this training run.

    Args:
        saved, cfg: the options of the checkpoint, and those of the training run.
        measured, measures: the metric of each, and whether its largest value is the best.
    """
    if measured != measures:
        return False
    before, now = _name(saved, "criterion"), _name(cfg, "criterion")
    metric = measures[0]
    if {before, now} <= CROSS_ENTROPIES:
        return metric in COMPARABLE or _loss(saved) == _loss(cfg)
    return before == now or metric == "bleu"


def _forget_best(state: Any, cfg: Any) -> None:
    """Let a scheduler begin with the next validation, which measures something else.

    Args:
        state: that of the scheduler in the checkpoint, which is changed.
        cfg: the options of the training run.
    """
    if not isinstance(state, dict) or "best" not in state:
        return
    worst = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
    state["best"] = worst if _name(cfg, "lr_scheduler") == "reduce_lr_on_plateau" else None
    for name in COUNTS.intersection(state):
        state[name] = 0


def _changed_batch_options(saved: DictConfig, cfg: Any) -> Iterator[str]:
    """Say which options of the batches have other values, such as "--max-tokens 100 (now 200)"."""
    for group, names in BATCH_OPTIONS.items():
        for name in names:
            before = getattr(saved.get(group), name, None)
            now = getattr(cfg[group], name, None)
            if before != now:
                yield f"--{name.replace('_', '-')} {before} (now {now})"
