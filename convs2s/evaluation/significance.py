"""The significance of a difference between two systems: over sentences, seeds or data sets.

Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004;
Riezler and Maxwell, "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT",
ACL 2005 workshop.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from .scores import check_line_counts

SAMPLES = 1000
SMOOTHING = "exp"  # sacreBLEU's default for a corpus
# The most data sets for which all signs of differences are tried.
MAX_EXACT = 16


class Significance(NamedTuple):
    """A difference between two systems.

    Attributes:
        difference: mean score of the system minus that of the baseline, in percent.
        p: p-value of the test, as the function says that computes it.
    """

    difference: float
    p: float


def sentence_statistics(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """The n-gram counts that BLEU of a corpus is computed from.

    Returns:
        An array (sentences, 2 + 2 * 4): the lengths of hypothesis and reference, the number of
        correct n-grams and the number of all n-grams of each order.
    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    check_line_counts(hypotheses, references)
    # The effective order changes the score of a sentence, which is not used, and not its counts.
    metric = BLEU(force=True, effective_order=True)
    scores = (metric.sentence_score(*pair) for pair in zip(hypotheses, ([r] for r in references)))
    return np.array(
        [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores],
        dtype=float,
    )


def corpus_bleu(statistics: np.ndarray) -> float:
    """BLEU of a corpus from the sums of its sentences' statistics."""
    hypothesis_length, reference_length, *counts = (int(number) for number in statistics)
    order = len(counts) // 2
    score = BLEU.compute_bleu(
        counts[:order],
        counts[order:],
        hypothesis_length,
        reference_length,
        smooth_method=SMOOTHING,
        effective_order=False,
        max_ngram_order=order,
    )
    return float(score.score)


def errors(hypotheses: Sequence[str], references: Sequence[str]) -> np.ndarray:
    """Which lines are not exactly right.

    Returns:
        An array (lines, 2): the number of errors, and 1.
    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    check_line_counts(hypotheses, references)
    wrong = [first.split() != second.split() for first, second in zip(hypotheses, references)]
    return np.array([wrong, [True] * len(wrong)], dtype=float).T


def mean_error(statistics: np.ndarray) -> float:
    """The error rate of a corpus in percent, from the sums of its lines' statistics."""
    return float(100 * statistics[0] / statistics[1])


def paired_bootstrap(
    references: Sequence[str],
    baseline: Sequence[Sequence[str]],
    system: Sequence[Sequence[str]],
    samples: int = SAMPLES,
    seed: int = 12345,
    metric: str = "bleu",
) -> Significance:
    """Test whether two systems differ in a score, by paired bootstrap resampling.

    The statistic is the difference of the mean BLEU over seeds. A resample draws the same sentences
    for all seeds of both systems. With one seed each, the p-value is that of sacreBLEU's
    ``--paired-bs``, which resamples with the same random numbers.

    Args:
        references: the references of a test set.
        baseline: the baseline's translations of it, one list per training seed.
        system: the system's translations, one list per training seed; the numbers may differ.
        samples: number of resamples.
        seed: seed of the random numbers.
        metric: "bleu", or "wer" for the share of lines that are not exactly right.
    Returns:
        The difference, and its p-value: the share of resamples in which the absolute difference
        exceeds its mean over all resamples by the observed difference or more. It is 1 for one
        sentence, whose resamples are all the same.
    Raises:
        UserError: if translations and references differ in number, or there are none.
    """
    runs = [*baseline, *system]
    count, corpus_score = {"bleu": (sentence_statistics, corpus_bleu), "wer": (errors, mean_error)}[
        metric
    ]
    statistics = np.hstack([count(run, references) for run in runs])

    def mean_difference(sums: np.ndarray) -> float:
        scores = [corpus_score(part) for part in np.split(sums, len(runs))]
        return float(np.mean(scores[len(baseline) :]) - np.mean(scores[: len(baseline)]))

    observed = mean_difference(statistics.sum(0))
    size = len(references)
    if size == 1:
        return Significance(observed, 1.0)
    rng = np.random.default_rng(seed)
    resampled = np.empty(samples)
    for sample in range(samples):
        weights = np.bincount(rng.choice(size, size=size), minlength=size).astype(float)
        resampled[sample] = mean_difference(weights @ statistics)
    distances = np.abs(resampled)
    # Resamples equal to the observed difference count, so that identical systems have p = 1.
    extreme = int(np.count_nonzero(distances - distances.mean() >= abs(observed)))
    return Significance(observed, (extreme + 1) / (samples + 1))


def over_seeds(baseline: Sequence[float], system: Sequence[float]) -> float:
    """The p-value of a difference between the scores of two systems over their training seeds.

    Welch's t-test, two-sided (Welch, "The Generalization of 'Student's' Problem when Several
    Different Population Variances are Involved", Biometrika 1947).

    Args:
        baseline, system: the scores, one per seed; each system needs at least two.
    """
    # The variance of equal numbers may be above zero, because their mean is rounded.
    if not any(map(np.ptp, (baseline, system))):
        return float(baseline[0] == system[0])
    sizes = len(baseline), len(system)
    parts = [np.var(x, ddof=1) / n for x, n in zip((baseline, system), sizes)]
    difference = abs(np.mean(system) - np.mean(baseline))
    freedom = sum(parts) ** 2 / sum(part**2 / (n - 1) for part, n in zip(parts, sizes))
    # The density of Student's distribution of t is that of a power of the cosine of arctan(t / √f).
    angles = np.linspace(0, np.pi / 2, 100_001)
    density = np.cos(angles) ** (freedom - 1)
    parts_of_area = density[1:] + density[:-1]
    outside = angles[:-1] >= np.arctan(difference / np.sqrt(sum(parts) * freedom))
    return float(parts_of_area[outside].sum() / parts_of_area.sum())


def over_data_sets(differences: Sequence[float]) -> float:
    """The p-value of the mean difference between two systems over data sets.

    A permutation test, two-sided: if the systems were equally good, each difference could just as
    well have the other sign (Fisher, "The Design of Experiments", 1935).

    Args:
        differences: one for each of N data sets. All 2^N signs are tried, or 100,000 random ones if
            they are more.
    """
    values, count = np.array(differences), len(differences)
    if count <= MAX_EXACT:
        signs = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    else:
        signs = np.random.default_rng(12345).integers(0, 2, (100_000, count))
        signs[0] = 0  # the observed signs
    sums = np.abs((1 - 2 * signs) @ values)
    return float(np.mean(sums >= abs(values.sum()) - 1e-9))
