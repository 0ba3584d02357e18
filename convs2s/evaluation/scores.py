"""Scores of translations, and the significance of a difference in BLEU.

Koehn, "Statistical Significance Tests for Machine Translation Evaluation", EMNLP 2004;
Riezler and Maxwell, "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT",
ACL 2005 workshop.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from ..common.errors import UserError
from .metrics import MetricOptions, sacrebleu_score

SAMPLES = 1000
SMOOTHING = "exp"  # sacreBLEU's default for a corpus


def check_line_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Check that there is one translation for each reference.

    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"There are {len(hypotheses)} translations, but {len(references)} references; "
            "each reference needs one translation, in the same order."
        )
    if not references:
        raise UserError("There are no translations to score; the test set needs at least one line.")


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """Score translations of a test set against one reference each.

    Args:
        hypotheses: the translations, as plain text; sacreBLEU's default tokenizer (13a) applies.
        references: the references, in the same order.
    Returns:
        ``sacrebleu`` and ``chrf`` in percent; ``length_ratio``, the number of tokens in the
        translations divided by that in the references; ``sacrebleu_signature`` and
        ``chrf_signature``, the settings of both metrics.
    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    check_line_counts(hypotheses, references)
    (bleu, bleu_signature), (chrf, chrf_signature) = (
        sacrebleu_score(name, hypotheses, [references], MetricOptions())
        for name in ("BLEU", "chrF")
    )
    return {
        "sacrebleu": float(bleu.score),
        "sacrebleu_signature": bleu_signature,
        "chrf": float(chrf.score),
        "chrf_signature": chrf_signature,
        "length_ratio": float(bleu.ratio),
    }


class Significance(NamedTuple):
    """A difference between two systems.

    Attributes:
        difference: mean BLEU of the system minus mean BLEU of the baseline, in percent.
        p: p-value of the two-sided test.
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


def paired_bootstrap(
    references: Sequence[str],
    baseline: Sequence[Sequence[str]],
    system: Sequence[Sequence[str]],
    samples: int = SAMPLES,
    seed: int = 12345,
) -> Significance:
    """Test whether two systems differ in BLEU, by paired bootstrap resampling.

    The statistic is the difference of the mean BLEU over seeds. A resample draws the same sentences
    for all seeds of both systems. With one seed each, the p-value is that of sacreBLEU's
    ``--paired-bs``, which resamples with the same random numbers.

    Args:
        references: the references of a test set.
        baseline: the baseline's translations of it, one list a training seed.
        system: the system's translations, one list a training seed; the numbers may differ.
        samples: number of resamples.
        seed: seed of the random numbers.
    Returns:
        The difference, and its p-value: the share of resamples in which the absolute difference
        exceeds its mean over all resamples by the observed difference or more.
    Raises:
        UserError: if translations and references differ in number, or there are none.
    """
    runs = [*baseline, *system]
    statistics = np.hstack([sentence_statistics(run, references) for run in runs])

    def mean_difference(sums: np.ndarray) -> float:
        scores = [corpus_bleu(part) for part in np.split(sums, len(runs))]
        return float(np.mean(scores[len(baseline) :]) - np.mean(scores[: len(baseline)]))

    observed = mean_difference(statistics.sum(0))
    size = len(references)
    rng = np.random.default_rng(seed)
    resampled = np.empty(samples)
    for sample in range(samples):
        weights = np.bincount(rng.choice(size, size=size), minlength=size).astype(float)
        resampled[sample] = mean_difference(weights @ statistics)
    distances = np.abs(resampled)
    # Resamples equal to the observed difference count, so that identical systems have p = 1.
    extreme = int(np.count_nonzero(distances - distances.mean() >= abs(observed)))
    return Significance(observed, (extreme + 1) / (samples + 1))
