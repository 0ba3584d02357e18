"""The suggestion of a learning rate, for made-up sweeps."""

import math
import random

import pytest

from convs2s_plugin.optim.lr_suggestion import Point, finite, group, rounded, smooth, suggest

RATES = [10 ** (-5 + 5 * i / 99) for i in range(100)]
SMOOTHING = 0.9


def sweep(loss_of, noise=0.0):
    """Points with the loss that a function gives for the decimal logarithm of the learning rate."""
    numbers = random.Random(1)
    return [Point(lr, loss_of(math.log10(lr)) + numbers.gauss(0, noise)) for lr in RATES]


def descent(x):
    """From 12 to 8 between 1e-4 and 1e-2."""
    return 12 - 4 * min(max((x + 4) / 2, 0), 1)


def valley(x):
    """A descent, and an explosion from 3e-2 on."""
    return descent(x) + 30 * max(x + 1.5, 0)


@pytest.mark.parametrize("noise", (0.0, 0.2, 0.5))
@pytest.mark.parametrize("loss_of", (valley, descent))
def test_the_lower_end_of_the_minimum(loss_of, noise):
    """The loss is flat above 1e-2, for half a decade or for two decades."""
    suggestion = suggest(sweep(loss_of, noise), SMOOTHING)
    assert 3e-3 <= suggestion.lr <= 1.5e-2
    assert suggestion.remark == ""


def test_an_explosion_does_not_change_the_losses_before_it():
    low = suggest(sweep(lambda x: descent(x) if x < -1 else 20.0), SMOOTHING)
    high = suggest(sweep(lambda x: descent(x) if x < -1 else 1e6), SMOOTHING)
    assert low == high and 3e-3 <= low.lr <= 1e-2


def test_not_close_to_an_explosion():
    points = [point for point in sweep(descent) if point.lr < 1e-2]
    assert suggest(points, SMOOTHING).lr == 4e-3
    assert suggest(points, SMOOTHING, exploded=True).lr == 2e-3


def test_a_loss_that_is_not_finite_ends_the_sweep():
    points = sweep(descent)
    points[80:] = [Point(lr, math.nan) for lr in RATES[80:]]
    assert finite(points) == points[:80]
    assert 3e-3 <= suggest(points, SMOOTHING, exploded=True).lr <= 1.5e-2


@pytest.mark.parametrize("loss", (math.nan, math.inf))
def test_not_finite_from_the_first_update(loss):
    suggestion = suggest([Point(RATES[0], loss)], SMOOTHING, exploded=True)
    assert suggestion.lr is None
    assert "The loss of update 1 is not a finite number" in suggestion.remark


def test_too_few_updates():
    suggestion = suggest(sweep(descent)[:5], SMOOTHING)
    assert suggestion.lr is None and "5 updates" in suggestion.remark


@pytest.mark.parametrize("noise", (0.0, 0.3))
@pytest.mark.parametrize("loss_of", (lambda x: 12.0, lambda x: 12 + 10 * max(x + 2, 0)))
def test_a_loss_that_does_not_fall(loss_of, noise):
    suggestion = suggest(sweep(loss_of, noise), SMOOTHING)
    assert suggestion.lr is None
    assert "does not fall" in suggestion.remark and "--max-lr" in suggestion.remark


def test_a_range_that_is_too_narrow():
    end = suggest([point for point in sweep(descent) if point.lr < 1e-3], SMOOTHING)
    assert "try a --max-lr above" in end.remark
    start = suggest([point for point in sweep(descent) if point.lr > 1e-3], SMOOTHING)
    assert "try a --min-lr below" in start.remark


def test_smoothing():
    assert smooth([3.0, 1.0, 2.0], 0.0) == [3.0, 1.0, 2.0]
    assert smooth([5.0] * 4, 0.9) == pytest.approx([5.0] * 4)
    assert smooth([0.0, 1.0, 0.0], 0.5) == pytest.approx([0.5 / 1.75, 1 / 2, 0.5 / 1.75])
    assert smooth([], 0.5) == []


@pytest.mark.parametrize(
    "lr, expected", ((1.48e-3, 1.5e-3), (9.6e-3, 0.01), (0.0044, 0.004), (0.7, 0.8), (1.0, 1.0))
)
def test_round_numbers(lr, expected):
    assert rounded(lr) == expected


def test_groups_have_mean_losses():
    rows = group([Point(0.001, 4.0), Point(0.00101, 2.0), Point(0.01, 1.0)])
    assert [row.loss for row in rows] == [3.0, 1.0]
    assert rows[0].lr == pytest.approx(10**-2.875)
