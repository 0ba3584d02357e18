"""Validation: metrics that do not exist are refused first; BLEU of empty hypotheses is 0."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.registry import REGISTRIES
from fairseq.tasks.translation import EVAL_BLEU_ORDER, TranslationTask
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from convs2s.common.errors import UserError, check_names, nearest

from .patches import Tier, patched

# Metrics whose best value is the largest one, and the smallest one.
HIGH, LOW = ("bleu", "accuracy"), ("loss", "nll_loss", "ppl")
# Metrics of convs2s_sequence_risk whose best value is the largest one.
HIGH_OF_SENTENCES = ("sentence_bleu", "sentence_chrf", "oracle_bleu", "oracle_chrf")
NO_TRANSLATIONS = (
    "has no translations, which training and validation need: binarize it with both languages, "
    "without --only-source."
)
# What is logged besides the metrics: sizes of batches, and speed.
SPEEDS = ("bsz", "ups", "wpb", "wps")
# Metrics, and the options that compute them.
ASKED_FOR = {"bleu": "--eval-bleu", "accuracy": "--report-accuracy"}


def check_metrics(trainer: Any) -> None:
    """Check the metrics of options before training; fairseq fails after the first epoch.

    Raises:
        UserError: if validation will not have a metric, or its worst value would be the best.
    """
    cfg = trainer.cfg
    name = cfg.checkpoint.best_checkpoint_metric
    largest = cfg.checkpoint.maximize_best_checkpoint_metric
    if cfg.dataset.disable_validation:
        return
    if name in (LOW if largest else HIGH + HIGH_OF_SENTENCES):
        change = "omit" if largest else "add"
        raise UserError(
            f"--best-checkpoint-metric {name} is best if it is {'low' if largest else 'high'}: "
            f"{change} --maximize-best-checkpoint-metric."
        )
    _check_computed(trainer, "--best-checkpoint-metric", name)
    decides = getattr(cfg.lr_scheduler, "lr_metric", None)
    if decides is not None:
        _check_computed(trainer, "--lr-metric", decides)


def _check_computed(trainer: Any, given: str, name: str) -> None:
    """Check that validation computes a metric, by the first batch of the validation set.

    Args:
        trainer: fairseq's trainer.
        given: the option that names the metric.
        name: the metric; the loss and BLEU need no batch.
    Raises:
        UserError: if it does not.
    """
    cfg, task = trainer.cfg, trainer.task
    subset = cfg.dataset.valid_subset.split(",")[0]
    computes_bleu = bool(getattr(task.cfg, "eval_bleu", False))
    known = name == "loss" or name == "bleu" and computes_bleu
    if known or subset not in task.datasets:
        return
    found = {*_metrics_of_a_batch(trainer, subset), *(["bleu"] if computes_bleu else [])}
    if name not in found:
        option = f"; add {ASKED_FOR[name]}" if name in ASKED_FOR else nearest(name, found)
        raise UserError(
            f"{given} is {name}, but validation computes only {', '.join(sorted(found))}{option}."
        )


def _metrics_of_a_batch(trainer: Any, subset: str) -> list[str]:
    """The names of the metrics of a validation, without BLEU, which takes longer."""
    options = trainer.task.cfg
    computes_bleu = getattr(options, "eval_bleu", None)
    batch = trainer.get_valid_iterator(subset).first_batch
    with _same_random_numbers(), metrics.aggregate(new_root=True) as found:
        try:
            if computes_bleu:
                options.eval_bleu = False
            trainer.valid_step(batch)
        finally:
            if computes_bleu:
                options.eval_bleu = computes_bleu
    names = found.get_smoothed_values()
    return [name for name in names if name not in SPEEDS and not name.startswith("_")]


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Let the code after this block draw the random numbers that it would draw without it."""
    before, numpy_before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(before)
    np.random.set_state(numpy_before)


@patched(data_utils, "raise_if_valid_subsets_unintentionally_ignored", Tier.EXTRA)
def check_subsets(original: Any, cfg: Any) -> None:
    """Refuse validation sets such as ``valid1`` that no option mentions.

    fairseq also refuses those that --valid-subset names.
    """
    options = cfg.dataset
    if (
        options.ignore_unused_valid_subsets
        or options.combine_valid_subsets
        or options.disable_validation
        or not isinstance(getattr(cfg.task, "data", None), str)
    ):
        return
    for folder in utils.split_paths(cfg.task.data):
        there = {name.partition(".")[0] for name in PathManager.ls(folder)}
        ignored = {name for name in there if re.fullmatch(r"valid\d+", name)}
        ignored -= set(options.valid_subset.split(","))
        if ignored:
            raise UserError(
                f"{folder} also has the validation sets {', '.join(sorted(ignored))}: name them in "
                "--valid-subset valid,..., or add --combine-valid-subsets to merge all into one "
                "set, or --ignore-unused-valid-subsets."
            )


@patched(TranslationTask, "valid_step", Tier.EXTRA)
def valid_step(original: Any, self: TranslationTask, sample: Any, *args: Any) -> Any:
    """Refuse batches without translations."""
    if sample.get("target") is None:
        raise UserError(f"The validation set {NO_TRANSLATIONS}")
    return original(self, sample, *args)


def check_translations(trainer: Any) -> None:
    """Check that the data sets of a training run have translations.

    Raises:
        UserError: if one has none.
    """
    for split, dataset in trainer.task.datasets.items():
        if getattr(dataset, "tgt", dataset) is None:
            raise UserError(f"The data set {split} {NO_TRANSLATIONS}")


@patched(TranslationTask, "reduce_metrics", Tier.EXTRA)
def reduce_metrics(
    original: Any, self: TranslationTask, logging_outputs: list[dict[str, Any]], criterion: Any
) -> None:
    """Count batches with empty hypotheses only for BLEU.

    fairseq skips them and their references, so BLEU is too high, or missing.
    """
    original(self, logging_outputs, criterion)
    if not self.cfg.eval_bleu or not any("_bleu_ref_len" in log for log in logging_outputs):
        return

    def total(name: str) -> float:
        return float(sum(log.get(name, 0) for log in logging_outputs))

    if any(total(f"_bleu_totals_{n}") for n in range(EVAL_BLEU_ORDER)):
        return
    for name in ("_bleu_counts", "_bleu_totals"):
        metrics.log_scalar(name, np.zeros(EVAL_BLEU_ORDER))
    for name in ("_bleu_sys_len", "_bleu_ref_len"):
        metrics.log_scalar(name, total(name))
    metrics.log_derived("bleu", _bleu)


def _bleu(meters: Any) -> float:
    """BLEU from the counts that fairseq's task logged, rounded as by the task."""
    from sacrebleu.metrics.bleu import BLEU

    score = BLEU.compute_bleu(
        correct=[int(count) for count in meters["_bleu_counts"].sum],
        total=[int(count) for count in meters["_bleu_totals"].sum],
        sys_len=int(meters["_bleu_sys_len"].sum),
        ref_len=int(meters["_bleu_ref_len"].sum),
        smooth_method="exp",
    )
    return round(score.score, 2)


@patched(TranslationTask, "build_model", Tier.EXTRA)
def build_model(original: Any, self: TranslationTask, *args: Any, **kwargs: Any) -> Any:
    """Check the options of --eval-bleu before the model is built."""
    if self.cfg.eval_bleu:
        _check_search(_json_object("eval-bleu-args", self.cfg.eval_bleu_args))
        if "tokenizer" in _json_object("eval-bleu-detok-args", self.cfg.eval_bleu_detok_args):
            raise UserError("--eval-bleu-detok-args has 'tokenizer': give --eval-bleu-detok.")
        tokenizers = REGISTRIES["tokenizer"]["registry"]
        name = self.cfg.eval_bleu_detok
        if name not in tokenizers:
            raise UserError(
                f"--eval-bleu-detok is {name}, but must be one of {', '.join(sorted(tokenizers))}"
                f"{nearest(name, tokenizers)}."
            )
    return original(self, *args, **kwargs)


def _json_object(option: str, text: str | None) -> dict[str, Any]:
    """Parse an option in JSON.

    Raises:
        UserError: if it is not an object.
    """
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UserError(
            f"--{option} is {text}, but must be a JSON object, such as '{{\"beam\": 4}}' with "
            "quotes for the shell."
        )
    return value


def _check_search(given: dict[str, Any]) -> None:
    """Check the options of the search for --eval-bleu.

    Raises:
        UserError: if an option does not exist, which fairseq would ignore, or has another type.
    """
    check_names(given, GenerationConfig.__dataclass_fields__, "--eval-bleu-args")
    for name, value in given.items():
        try:
            config = OmegaConf.structured(GenerationConfig)
            config[name] = value
            fits = config[name] == value
        except OmegaConfBaseException:
            fits = False
        if not fits:
            raise UserError(
                f"--eval-bleu-args has {json.dumps(value)} as {name}, a value of another type."
            )
