"""Weights of features with the highest BLEU on a development set: minimum error rate training.

Och 2003, "Minimum error rate training in statistical machine translation".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..significance import corpus_bleu, sentence_statistics
from .features import SCORE, Features

ROUNDS = 20
RESTARTS = 4
# Smaller gains are rounding.
GAIN = 1e-6


class Tuned(NamedTuple):
    """Weights, and BLEU in percent with them."""

    weights: dict[str, float]
    bleu: float


def tune(
    features: Features, hypotheses: Sequence[str], references: Sequence[str], seed: int = 1
) -> Tuned:
    """Find weights by exact line searches, from the score alone and from random weights.

    Args:
        features: of H hypotheses.
        hypotheses: the text of each of them.
        references: one for each sentence.
        seed: of the random weights.
    """
    counts = np.diff(features.bounds)
    repeated = [text for text, count in zip(references, counts) for _ in range(count)]
    statistics = sentence_statistics(hypotheses, repeated)
    matrix = features.matrix()
    begins = features.bounds[:-1]
    ranges = np.maximum.reduceat(matrix, begins) - np.minimum.reduceat(matrix, begins)
    unit = ranges.mean(axis=0)

    def in_units(numbers: np.ndarray) -> np.ndarray:
        # One unit for all, as the random weights assume. A feature without differences in any list
        # gets the weight 0: it may have some in other lists.
        return np.divide(numbers, unit, out=np.zeros_like(numbers), where=unit > 0)

    names = list(features.values)
    start = np.array([1.0 if name == SCORE else 0.0 for name in names])
    numbers = np.random.default_rng(seed)
    starts = [start, *numbers.uniform(-1, 1, (RESTARTS, len(names)))]

    def tuned(start: np.ndarray) -> Tuned:
        found = in_units(_ascend(in_units(matrix), features, statistics, start))
        found /= max(abs(found).max(), 1e-12)
        weights = dict(zip(names, found.tolist()))
        # With the weights as they are used: those of a search may be in an interval so small that
        # rounding leaves it.
        return Tuned(weights, corpus_bleu(statistics[features.best(weights)].sum(axis=0)))

    return max(map(tuned, starts), key=lambda each: each.bleu)


def _ascend(
    matrix: np.ndarray, features: Features, statistics: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Change one weight after the other as long as BLEU rises."""
    best = corpus_bleu(statistics[features.best_of(matrix @ weights)].sum(axis=0))
    for _ in range(ROUNDS):
        before = best
        for column in range(matrix.shape[1]):
            step, bleu = _search_line(matrix @ weights, matrix[:, column], features, statistics)
            if bleu > best + GAIN:
                weights = weights.copy()
                weights[column] += step
                best = bleu
        if best <= before + GAIN:
            break
    return weights


def _search_line(
    sums: np.ndarray, slopes: np.ndarray, features: Features, statistics: np.ndarray
) -> tuple[float, float]:
    """The step t with the highest BLEU of the choices by ``sums + t * slopes``, and this BLEU."""
    changes: list[tuple[float, int, int]] = []
    chosen = []
    for begin, end in zip(features.bounds[:-1], features.bounds[1:]):
        envelope = list(upper_envelope(sums[begin:end], slopes[begin:end]))
        chosen.append(begin + envelope[0][1])
        changes += [
            (step, begin + old, begin + new)
            for (_, old), (step, new) in zip(envelope, envelope[1:])
        ]
    total = statistics[chosen].sum(axis=0)
    if not changes:
        return 0.0, corpus_bleu(total)
    changes.sort()
    steps = [step for step, _, _ in changes]
    # Between two changes, all choices are the same: take the middle of the interval.
    best_step, best_bleu = steps[0] - 1.0, corpus_bleu(total)
    for number, (step, old, new) in enumerate(changes):
        total = total - statistics[old] + statistics[new]
        following = steps[number + 1] if number + 1 < len(steps) else step + 2.0
        if following > step:
            bleu = corpus_bleu(total)
            if bleu > best_bleu:
                best_step, best_bleu = (step + following) / 2, bleu
    return best_step, best_bleu


def upper_envelope(offsets: np.ndarray, slopes: np.ndarray) -> Iterator[tuple[float, int]]:
    """The lines ``offset + t * slope`` that are the highest for some t, from left to right.

    Yields:
        The t from which on a line is the highest, which is minus infinity for the first one, and
        its number.
    """
    order = np.lexsort((-offsets, slopes))
    stack: list[tuple[float, int]] = []
    for line in order.tolist():
        if stack and slopes[line] == slopes[stack[-1][1]]:
            continue  # Of parallel lines, the first one in this order is the highest.
        begin = -np.inf
        while stack:
            since, other = stack[-1]
            begin = float((offsets[other] - offsets[line]) / (slopes[line] - slopes[other]))
            if begin > since:
                break
            stack.pop()
        stack.append((begin, line))
    yield from stack
