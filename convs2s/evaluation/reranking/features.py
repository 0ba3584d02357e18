"""What the choice of a hypothesis depends on: named numbers for each hypothesis, and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...common.errors import UserError
from ...common.text_files import read_lines
from .nbest import NBest, parse_score

# Features that every list has.
SCORE, WORDS = "score", "words"


@dataclass(frozen=True)
class Features:
    """The features of all hypotheses of all sentences.

    Attributes:
        values: name -> one number for each of the H hypotheses, sentence by sentence.
        bounds: where the hypotheses of each sentence begin, and H.
    """

    values: dict[str, np.ndarray]
    bounds: np.ndarray

    def matrix(self) -> np.ndarray:
        """H x F, the columns in the order of ``values``; see ``_finite``."""
        return np.stack([_finite(column) for column in self.values.values()], axis=1)

    def best(self, weights: Mapping[str, float]) -> np.ndarray:
        """The hypothesis with the highest weighted sum for each sentence, of equal ones the first.

        Args:
            weights: a weight for each feature.
        Returns:
            Positions among all hypotheses.
        Raises:
            UserError: if the weights are those of other features.
        """
        if weights.keys() != self.values.keys():
            raise UserError(
                f"The weights are for {', '.join(weights)}, but the hypotheses have "
                f"{', '.join(self.values)}: give each of these a weight."
            )
        return self.best_of(self.matrix() @ [weights[name] for name in self.values])

    def best_of(self, sums: np.ndarray) -> np.ndarray:
        """The position of the largest of H numbers for each sentence, of equal ones the first."""
        pairs = zip(self.bounds[:-1], self.bounds[1:])
        return np.array([begin + int(sums[begin:end].argmax()) for begin, end in pairs])


def _finite(values: np.ndarray) -> np.ndarray:
    """Replace minus infinity, the score of an impossible hypothesis, by the lowest other number.

    A weight of 0 times minus infinity is no number.
    """
    possible = np.isfinite(values)
    return np.where(possible, values, values.min(initial=0.0, where=possible))


def basic_features(lists: Sequence[NBest]) -> Features:
    """The score and the number of words of each hypothesis."""
    hypotheses = [hypothesis for each in lists for hypothesis in each.hypotheses]
    counts = [len(each.hypotheses) for each in lists]
    values = {
        SCORE: np.array([hypothesis.score for hypothesis in hypotheses]),
        WORDS: np.array([float(len(hypothesis.text.split())) for hypothesis in hypotheses]),
    }
    return Features(values, np.concatenate([[0], np.cumsum(counts)]))


def read_scores(path: str, count: int) -> np.ndarray:
    """Read a file with one score for each hypothesis, in the order of the n-best lists.

    Args:
        path: a text file with one number a line.
        count: H, the number of hypotheses.
    Raises:
        UserError: if the file cannot be read, or does not have H numbers.
    """
    lines = enumerate(read_lines(path), start=1)
    scores = [parse_score(path, number, line) for number, line in lines]
    if len(scores) != count:
        raise UserError(
            f"{path} has {len(scores):,} scores, but the n-best lists have {count:,} hypotheses: "
            "each of them needs a score, on a line of its own and in the same order."
        )
    return np.array(scores)
