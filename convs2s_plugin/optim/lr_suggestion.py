"""Suggest a learning rate from the losses of an LR range test. Knows neither torch nor fairseq."""

import math
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

# The suggestion is the lowest learning rate that makes this share of the drop of the loss.
SHARE = 0.9
# Rows of the table for each power of ten.
GROUPS_PER_DECADE = 4
# Share of the points whose mean is the loss at the start.
START = 0.1
# The range was too narrow if the drop begins or ends in this share of the points.
EDGE = 0.15
# The suggestion is at most this many times the learning rate at which the loss explodes.
MAX_OF_EXPLOSION = 0.2
# A sweep needs so many finite losses.
MIN_POINTS = 10
# A drop counts if it is larger than this many times the noise, and than this share of the loss.
MIN_DROP_IN_NOISE, MIN_RELATIVE_DROP = 2.0, 0.01


class Point(NamedTuple):
    """One update of a sweep.

    Attributes:
        lr: its learning rate.
        loss: training loss of its batch, before the update.
    """

    lr: float
    loss: float


class Suggestion(NamedTuple):
    """A suggested learning rate.

    Attributes:
        lr: peak learning rate, a round number; None if the sweep supports none.
        remark: why there is no suggestion, or what is doubtful about it; may be empty.
    """

    lr: float | None
    remark: str = ""


def finite(points: Sequence[Point]) -> list[Point]:
    """The points before the first loss that is infinite or not a number."""
    end = next((i for i, p in enumerate(points) if not math.isfinite(p.loss)), len(points))
    return list(points[:end])


def smooth(losses: Sequence[float], smoothing: float) -> list[float]:
    """Smooth losses without delay: weights ``smoothing ** distance`` on both sides.

    Args:
        losses: finite numbers.
        smoothing: from 0 (nothing is smoothed) to less than 1.
    """
    totals, weights = [0.0] * len(losses), [0.0] * len(losses)
    for order in (range(len(losses)), reversed(range(len(losses)))):
        total = weight = 0.0
        for i in order:
            total, weight = smoothing * total + losses[i], smoothing * weight + 1.0
            totals[i] += total
            weights[i] += weight
    # Both directions count the point itself.
    return [(t - x) / (w - 1.0) for t, w, x in zip(totals, weights, losses)]


def suggest(points: Sequence[Point], smoothing: float, exploded: bool = False) -> Suggestion:
    """Suggest the peak learning rate of a schedule with a warm-up.

    The suggestion is the lowest learning rate at which the smoothed loss has made SHARE of its
    drop, from its value at the start of the sweep to its lowest value. It lies below the minimum,
    which is too close to the explosion for a long training, and at the lower end of a minimum that
    extends over several orders of magnitude, as with batch normalization. Losses above that of
    the start count as that one, so that an explosion does not raise the smoothed losses before it.

    Args:
        points: the sweep, with increasing learning rates.
        smoothing: weight of the neighbors, see ``smooth``.
        exploded: whether the sweep ended because the loss exploded. The suggestion is then at most
            MAX_OF_EXPLOSION times the last learning rate.
    """
    usable = finite(points)
    if len(usable) < MIN_POINTS:
        return Suggestion(None, _too_few(len(usable), len(points)))
    start, curve = _smoothed(usable, smoothing)
    best = min(range(len(curve)), key=curve.__getitem__)
    drop = start - curve[best]
    noise = median(abs(point.loss - loss) for point, loss in zip(usable, curve))
    if drop <= max(MIN_DROP_IN_NOISE * noise, MIN_RELATIVE_DROP * abs(start)):
        return Suggestion(
            None,
            f"The loss does not fall clearly below {start:.2f} between {usable[0].lr:.0e} and "
            f"{usable[-1].lr:.0e}. Try a wider range (--min-lr, --max-lr), more updates "
            "(--sweep-updates) or larger batches (--max-tokens).",
        )
    first = next(i for i, loss in enumerate(curve) if loss <= start - SHARE * drop)
    lr = usable[first].lr
    if exploded:
        lr = min(lr, MAX_OF_EXPLOSION * points[-1].lr)
    if first >= (1 - EDGE) * len(usable) and not exploded:
        remark = f"The loss still falls at the end: try a --max-lr above {points[-1].lr:.1g}."
    elif curve[round(EDGE * len(usable))] <= start - SHARE / 2 * drop:
        remark = f"The loss falls from the start: try a --min-lr below {points[0].lr:.1g}."
    else:
        remark = ""
    return Suggestion(rounded(lr), remark)


def smoothed(points: Sequence[Point], smoothing: float) -> list[float]:
    """The smoothed losses of ``suggest``, one for each point of ``finite``."""
    usable = finite(points)
    return _smoothed(usable, smoothing)[1] if usable else []


def _smoothed(usable: Sequence[Point], smoothing: float) -> tuple[float, list[float]]:
    """The loss at the start, and the smoothed losses."""
    start = fmean(point.loss for point in usable[: max(1, round(START * len(usable)))])
    return start, smooth([min(point.loss, start) for point in usable], smoothing)


def _too_few(usable: int, points: int) -> str:
    if usable == points:
        return f"There are {points} updates, but a suggestion needs at least {MIN_POINTS}."
    return (
        f"The loss of update {usable + 1} is not a finite number. Check the precision (--fp16, "
        "--autocast-dtype), --clip-norm, and whether --min-lr is low enough."
    )


def rounded(lr: float) -> float:
    """The nearest of 1, 1.5, 2, 3, 4, 5, 6 and 8 times a power of ten."""
    exponent = math.floor(math.log10(lr))
    candidates = [float(f"{digits}e{exponent}") for digits in (1, 1.5, 2, 3, 4, 5, 6, 8, 10)]
    return min(candidates, key=lambda candidate: abs(math.log(candidate / lr)))


def group(points: Sequence[Point]) -> list[Point]:
    """Summarize points: the mean loss of each of GROUPS_PER_DECADE ranges in a power of ten.

    Returns:
        The learning rate in the middle of each range that has points, and their mean loss.
    """
    groups: dict[int, list[float]] = {}
    for point in points:
        number = math.floor(math.log10(point.lr) * GROUPS_PER_DECADE + 1e-6)
        groups.setdefault(number, []).append(point.loss)
    return [
        Point(10 ** ((number + 0.5) / GROUPS_PER_DECADE), fmean(losses))
        for number, losses in groups.items()
    ]
