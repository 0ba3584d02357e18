"""``--lr-scheduler reduce_lr_on_validation``: what counts, when, and over restarts."""

import re
import shutil
from argparse import Namespace

import pytest
from fairseq.optim import FairseqOptimizer

from convs2s_plugin.errors import UserError
from convs2s_plugin.fairseq_compat import validations
from convs2s_plugin.optim import ReduceLROnValidation
from tests.commands import TINY, refused, run, train, train_arguments
from tests.integration.test_fairseq_train import OURS, assert_same, weights

# Four batches an epoch; nothing but the first value is an improvement of 100.
OPTIONS = (
    *(*TINY[:-2], "--batch-size", "64", "--seed", "1", "--log-interval", "1"),
    *("--lr-scheduler", "reduce_lr_on_validation", "--lr-threshold", "100"),
)


class Optimizer(FairseqOptimizer):
    """Keeps a learning rate."""

    def __init__(self):
        self.lr = None

    def set_lr(self, lr):
        self.lr = lr

    def get_lr(self):
        return self.lr


class Task:
    """What a task of fairseq has of validations."""

    def begin_valid_epoch(self, epoch, model):
        pass


class ReportingTask(validations.ReportsValidations, Task):
    pass


@pytest.fixture
def validate():
    """Validates with a value at an update, as fairseq does."""
    task = ReportingTask()

    def report(value, num_updates=10, metric="loss"):
        task.begin_valid_epoch(1, None)
        task.post_validate(None, {metric: value, "num_updates": num_updates}, None)
        # A second subset does not count.
        task.post_validate(None, {metric: 1e9, "num_updates": num_updates}, None)

    return report


def scheduler(**options):
    defaults = {
        **{"lr": [0.5], "lr_shrink": 0.8, "lr_patience": 3, "lr_threshold": 0.0},
        **{"warmup_updates": 0, "warmup_init_lr": -1.0},
        **{"best_checkpoint_metric": "loss", "maximize_best_checkpoint_metric": False},
    }
    return ReduceLROnValidation(Namespace(**{**defaults, **options}), Optimizer())


def rates(schedule, validate, values, **options):
    found = []
    for value in values:
        validate(value, **options)
        found.append(schedule.optimizer.get_lr())
    return found


def test_some_validations_without_improvement_shrink_the_rate(validate):
    schedule = scheduler()
    values = [5.0, 4.0, 4.1, 4.0, 3.9, 3.9, 4.0, 3.95, 3.9, 3.8, 9.0, 9.0, float("nan")]
    assert rates(schedule, validate, values) == [0.5] * 7 + [0.5 * 0.8] * 4 + [
        pytest.approx(0.5 * 0.8),
        pytest.approx(0.5 * 0.8**2),
    ]


def test_what_an_improvement_is(validate):
    # Small steps add up: each is measured from the last value that was an improvement.
    schedule = scheduler(lr_patience=2, lr_threshold=0.25)
    assert rates(schedule, validate, [2.0, 1.875, 1.75, 1.5]) == [0.5, 0.5, 0.4, 0.4]
    assert schedule.best == 1.5
    schedule = scheduler(
        lr_patience=1, best_checkpoint_metric="bleu", maximize_best_checkpoint_metric=True
    )
    assert rates(schedule, validate, [20.0, 21.0, 20.5], metric="bleu") == [0.5, 0.5, 0.4]


def test_warmup(validate):
    schedule = scheduler(warmup_updates=4, warmup_init_lr=0.1, lr_patience=1)
    assert [schedule.step_update(update) for update in (0, 1, 4, 5)] == pytest.approx(
        [0.1, 0.2, 0.5, 0.5]
    )
    assert rates(schedule, validate, [1.0, 2.0], num_updates=4) == [0.5, 0.5]
    assert rates(schedule, validate, [3.0, 4.0], num_updates=5) == [0.5, 0.4]
    assert scheduler(warmup_updates=4).step_update(1) == 0.125


@pytest.mark.parametrize(
    "options",
    [
        {"lr": [0.1, 0.2]},
        {"lr_shrink": 1.0},
        {"lr_patience": 0},
        {"lr_threshold": -1.0},
        {"warmup_updates": -1},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_out_of_range(options, validate):
    with pytest.raises(UserError, match=f"--{next(iter(options)).replace('_', '-')} is"):
        scheduler(**options)


def test_another_schedulers_checkpoint(validate):
    with pytest.raises(UserError, match="add --reset-lr-scheduler"):
        scheduler().load_state_dict({"best": 1.0, "last_epoch": 3})


def events(log):
    """What fairseq-train logged, in order: learning rates of updates, and None for a validation."""
    return [
        float(found[1]) if found[1] else None
        for found in re.finditer(r", lr=([\d.e-]+)|\| valid on ", log)
    ]


def test_every_validation_counts_once_and_at_once(corpus, tmp_path):
    log = train(
        *(corpus, tmp_path, *OURS, "--lr-patience", "1", "--validate-interval-updates", "2"),
        *("--max-update", "9", "--no-save"),
        options=OPTIONS,
    )
    found, reductions = events(log), -1
    # After updates 2, 4 (an epoch's end), 6, 8 and 9, the last.
    assert [event is None for event in found] == [0, 0, 1] * 4 + [0, 1]
    for event in found:
        if event is None:
            reductions += 1
        else:
            assert event == pytest.approx(0.01 * 0.8 ** max(reductions, 0), rel=1e-3)


def test_a_resumed_training_ends_as_one_that_was_not_interrupted(corpus, tmp_path):
    common = ("--lr-patience", "2", "--save-interval-updates", "5", "--max-update", "14")
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    log = train(corpus, whole, *OURS, *common, options=OPTIONS)
    resumed.mkdir()
    # Within an epoch, after a reduction and the first of two validations for the next.
    shutil.copy(whole / "checkpoint_3_10.pt", resumed / "checkpoint_last.pt")
    rest = train(corpus, resumed, *OURS, *common, options=OPTIONS)
    found = events(rest)
    assert found == events(log)[-len(found) :]
    assert found == pytest.approx([0.008, 0.008, None, 0.0064, 0.0064, None])
    assert_same(
        weights(whole / "checkpoint_last.pt"),
        weights(resumed / "checkpoint_last.pt"),
        atol=0,
        rtol=0,
    )


def test_a_task_that_reports_no_validations_is_refused(corpus, tmp_path):
    sentence = refused(run("train", *train_arguments(corpus, tmp_path, options=OPTIONS)))
    assert "add --task convs2s_translation" in sentence
