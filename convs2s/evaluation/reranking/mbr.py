"""Expected utility: how much a hypothesis has in common with all others of its sentence.

The hypothesis with the highest one has the minimum Bayes risk (Kumar and Byrne 2004, "Minimum
Bayes-risk decoding for statistical machine translation").
"""

from collections.abc import Sequence

import numpy as np

from ..sentence_scores import SentenceScore
from .nbest import Hypothesis


def expected_utilities(
    hypotheses: Sequence[Hypothesis], utility: SentenceScore, temperature: float | None = None
) -> np.ndarray:
    """The expected utility of each hypothesis of a sentence, if another one were the reference.

    Args:
        hypotheses: N hypotheses.
        utility: compares two of them.
        temperature: the probability of a hypothesis is proportional to 2 to the power of its score
            divided by the temperature; None for equal probabilities.
    Returns:
        N utilities between 0 and 1.
    """
    counts = [utility.count(hypothesis.text) for hypothesis in hypotheses]
    table = np.array([[utility.compare(row, column) for column in counts] for row in counts])
    return np.asarray(table @ probabilities([each.score for each in hypotheses], temperature))


def probabilities(scores: Sequence[float], temperature: float | None) -> np.ndarray:
    """The probability of each hypothesis; see ``expected_utilities``."""
    if temperature is None or max(scores) == -np.inf:
        return np.full(len(scores), 1 / len(scores))
    powers = np.array(scores) / temperature
    weights = np.exp2(powers - powers.max())
    return np.asarray(weights / weights.sum())
