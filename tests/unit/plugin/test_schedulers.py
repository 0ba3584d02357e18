"""The scheduler reduce_lr_on_validation: improvements, patience, warm-up and its options."""

from argparse import Namespace

import pytest
from fairseq.optim import FairseqOptimizer

from convs2s.common.errors import UserError
from convs2s_plugin.compat import training
from convs2s_plugin.schedulers import ReduceLROnValidation


class Optimizer(FairseqOptimizer):
    """Holds a learning rate."""

    def __init__(self):
        self.lr = None

    def set_lr(self, lr):
        self.lr = lr

    def get_lr(self):
        return self.lr


class Task:
    """The part of a fairseq task that validations call."""

    def begin_valid_epoch(self, epoch, model):
        pass


class ReportingTask(training.ReportsValidations, Task):
    pass


@pytest.fixture
def validate():
    """A function that validates with a given value at an update."""
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


def test_an_improvement_exceeds_the_threshold(validate):
    # Small steps add up: each value is compared with the last improvement.
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
