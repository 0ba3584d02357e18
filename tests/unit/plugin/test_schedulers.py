"""The schedulers: improvements, patience, warm-up, budgets and their options."""

import time
from argparse import Namespace

import pytest
import torch
from fairseq.optim import FairseqOptimizer

from convs2s.common.errors import UserError
from convs2s_plugin.compat import training
from convs2s_plugin.schedulers import Budgeted, ReduceLROnValidation


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
        **{"lr_relative_threshold": False, "lr_metric": None, "lr_anneal": False, "min_lr": 0.0},
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


def test_the_rule_of_the_authors_of_pervasive_attention(validate):
    """That of torch's scheduler with its defaults but for factor, threshold and minimum."""
    options = {"lr_patience": 4, "lr_threshold": 0.01, "lr_relative_threshold": True}
    schedule = scheduler(**options, lr=[5e-4], min_lr=3.5e-4)
    weight = torch.nn.Parameter(torch.zeros(1))
    expected = torch.optim.lr_scheduler.ReduceLROnPlateau(
        torch.optim.SGD([weight], lr=5e-4), factor=0.8, patience=3, threshold=0.01, min_lr=3.5e-4
    )
    generator = torch.Generator().manual_seed(1)
    values = [
        *(4 - 0.02 * n for n in range(9)),
        *(3 + torch.rand(30, generator=generator)).tolist(),
    ]
    for value in values:
        expected.step(value)
        validate(value)
        assert schedule.optimizer.get_lr() == pytest.approx(
            expected.optimizer.param_groups[0]["lr"]
        )
    assert schedule.optimizer.get_lr() == 3.5e-4
    assert scheduler(warmup_updates=10, min_lr=0.4).step_update(1) == pytest.approx(0.05)


def test_relative_improvements_of_a_metric_that_grows(validate):
    options = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    schedule = scheduler(**options, lr_patience=1, lr_threshold=0.1, lr_relative_threshold=True)
    found = rates(schedule, validate, [20.0, 21.9, 22.1, 24.0], metric="bleu")
    assert found == pytest.approx([0.5, 0.4, 0.4, 0.32])


def test_the_rate_follows_the_loss_while_bleu_chooses_the_checkpoint(validate):
    options = {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True}
    schedule = scheduler(**options, lr_metric="nll_loss", lr_patience=1)
    assert rates(schedule, validate, [4.0, 3.0, 3.5], metric="nll_loss") == [0.5, 0.5, 0.4]


def test_after_the_first_reduction_at_every_validation(validate):
    schedule = scheduler(lr=[0.25], lr_shrink=0.1, lr_patience=1, lr_anneal=True)
    found = rates(schedule, validate, [5.0, 4.0, 4.5])
    state = schedule.state_dict()
    schedule = scheduler(lr=[0.25], lr_shrink=0.1, lr_patience=1, lr_anneal=True)
    schedule.load_state_dict(state)
    # A better value does not end it.
    found += rates(schedule, validate, [3.0, 3.5])
    assert found == pytest.approx([0.25, 0.25, 0.025, 0.0025, 0.00025])


def test_less_patience_than_a_checkpoint_has_waited(validate):
    schedule = scheduler(lr_patience=4)
    rates(schedule, validate, [5.0, 6.0, 6.0, 6.0])
    state = schedule.state_dict()
    schedule = scheduler(lr_patience=2)
    schedule.load_state_dict(state)
    assert rates(schedule, validate, [6.0, 6.0, 6.0]) == pytest.approx([0.4, 0.4, 0.32])


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
        {"lr_metric": "bleu"},
        {"min_lr": 0.6},
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


def budgeted(**options):
    defaults = {"lr": [0.5], "warmup_updates": 0}
    limits = {"max_update": 0, "max_epoch": 0, "stop_time_hours": 0.0}
    return Budgeted(Namespace(**{**defaults, **limits, **options}), Optimizer())


def test_the_rate_is_zero_at_the_last_update():
    schedule = budgeted(max_update=4, warmup_updates=2)
    assert [schedule.step_update(n) for n in range(5)] == [0.0, 0.1875, 0.25, 0.125, 0.0]


def test_the_first_of_several_limits_ends_training(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    schedule = budgeted(max_update=4, stop_time_hours=1.0)
    now[0] += 900
    assert [schedule.step_update(n) for n in (0, 1, 2)] == [0.375, 0.375, 0.25]
    now[0] += 1800
    assert schedule.step_update(2) == 0.125


def epochs(schedule, numbers, length=5):
    """The rates of all updates of some epochs of equal length."""
    found = []
    for epoch in numbers:
        schedule.step_begin_epoch(epoch)
        found += [schedule.step_update((epoch - 1) * length + n) for n in range(1, length + 1)]
    return found


def test_epochs_count_when_their_length_is_known():
    found = epochs(budgeted(max_epoch=4), (1, 2, 3, 4))
    assert found[:5] == [0.5] * 5
    assert found[5:] == pytest.approx([0.5 * (1 - n / 20) for n in range(6, 21)])


def test_a_single_epoch_counts_from_its_beginning():
    schedule = budgeted(max_epoch=1)
    schedule.note_epoch(5)
    assert epochs(schedule, [1]) == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])


def test_a_resumed_epoch_does_not_change_its_length():
    schedule = budgeted(max_epoch=3)
    epochs(schedule, (1, 2), length=4)
    state = schedule.state_dict()
    resumed = budgeted(max_epoch=3)
    resumed.load_state_dict(state)
    # Within the second epoch again, as fairseq does.
    resumed.step_begin_epoch(2)
    assert resumed.step_update(9) == schedule.step_update(9) == 0.5 * (1 - 9 / 12)


def continued(schedule, **options):
    """Another scheduler with the state of this one."""
    resumed = budgeted(**options)
    resumed.load_state_dict(schedule.state_dict())
    return resumed


def updates_of_epochs(schedule, numbers, length, done=0):
    """The rates of the updates of some epochs, the first of which was interrupted."""
    found = []
    for epoch in numbers:
        schedule.note_epoch(length, done)
        schedule.step_begin_epoch(epoch)
        found += [schedule.step_update(schedule.updates + 1) for _ in range(length - done)]
        done = 0
    return found


@pytest.mark.parametrize("length", [100, 30, 300])
def test_epochs_that_begin_again_at_one_end_at_zero(length):
    """As after --reset-dataloader; the data may be others."""
    schedule = budgeted(max_epoch=10)
    updates_of_epochs(schedule, range(1, 6), 100)
    schedule = continued(schedule, max_epoch=10)
    found = updates_of_epochs(schedule, range(1, 4), length)
    # It is interrupted once more.
    found += updates_of_epochs(continued(schedule, max_epoch=10), range(4, 11), length)
    total = 500 + 10 * length
    assert found == pytest.approx([0.5 * (1 - n / total) for n in range(501, total + 1)])


def test_epochs_that_begin_again_within_the_first():
    schedule = budgeted(max_epoch=4)
    schedule.note_epoch(10)
    schedule.step_begin_epoch(1)
    schedule.step_update(6)
    found = updates_of_epochs(continued(schedule, max_epoch=4), range(1, 5), 10)
    assert found == pytest.approx([0.5 * (1 - n / 46) for n in range(7, 47)])


@pytest.mark.parametrize("done", [0, 4])
def test_a_new_scheduler_begins_where_another_has_ended(done):
    """As with --reset-lr-scheduler, in the third of five epochs."""
    schedule = budgeted(max_epoch=5)
    schedule.step_update(20 + done)
    found = updates_of_epochs(schedule, (3, 4, 5), 10, done)
    assert found == pytest.approx([0.5 * (1 - n / 50) for n in range(21 + done, 51)])


def test_epochs_do_not_count_if_updates_end_training():
    schedule = budgeted(max_update=100)
    schedule.step_update(40)
    found = updates_of_epochs(schedule, (3, 4), 10)
    assert found == pytest.approx([0.5 * (1 - n / 100) for n in range(41, 61)])


def test_an_interruption_changes_no_rate():
    schedule = budgeted(max_epoch=3)
    expected = updates_of_epochs(schedule, (1, 2, 3), 7)
    schedule = budgeted(max_epoch=3)
    updates_of_epochs(schedule, (1,), 7)
    schedule.note_epoch(7)
    schedule.step_begin_epoch(2)
    schedule.step_update(9)
    resumed = continued(schedule, max_epoch=3)
    assert updates_of_epochs(resumed, (2, 3), 7, done=2) == expected[9:]


def test_a_state_of_an_earlier_version():
    schedule = budgeted(max_epoch=3)
    epochs(schedule, (1, 2), length=4)
    state = schedule.state_dict()
    del state["first"]
    resumed = budgeted(max_epoch=3)
    resumed.load_state_dict(state)
    assert epochs(resumed, [3], length=4) == epochs(schedule, [3], length=4)


def test_the_time_counts_over_interruptions(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    schedule = budgeted(stop_time_hours=1.0)
    now[0] += 900
    assert schedule.step_update(1) == 0.375
    state = schedule.state_dict()
    now[0] = 5.0
    resumed = budgeted(stop_time_hours=1.0)
    resumed.load_state_dict(state)
    now[0] += 900
    assert resumed.step_update(2) == 0.25
    now[0] += 9000
    assert resumed.step_update(3) == 0.0


def test_the_time_is_that_of_the_trainer():
    """With --reset-meters, it does not count what came before."""
    schedule = budgeted(stop_time_hours=1.0)
    schedule.load_state_dict({**schedule.state_dict(), "seconds": 1800.0})
    assert schedule.step_update(1) == pytest.approx(0.25, abs=0.01)
    schedule.note_time(900.0)
    assert schedule.step_update(2) == 0.375
    assert schedule.state_dict()["seconds"] == 900.0


def test_a_budget_is_needed():
    with pytest.raises(UserError, match="--max-epoch"):
        budgeted()
    with pytest.raises(UserError, match="--warmup-updates is -1"):
        budgeted(max_update=3, warmup_updates=-1)
    with pytest.raises(UserError, match="add --reset-lr-scheduler"):
        budgeted(max_update=3).load_state_dict({"best": 1.0})
