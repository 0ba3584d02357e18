"""``convs2s rerank``: the choice of a translation from an n-best list.

It depends on named numbers for each hypothesis, the features, and on their weights. Only
``model_scores`` needs torch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..common.errors import UserError
from ..common.lines import excerpt
from ..common.text_files import read_lines
from .nbest import Hypothesis, NBest, parse_score
from .sentence_scores import SentenceScore

if TYPE_CHECKING:
    from ..translation.decoding import Model
    from ..translation.options import EnsembleOptions

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

    def best(self, weights: Mapping[str, float]) -> np.ndarray:
        """The hypothesis with the highest weighted sum for each sentence; the first one in a tie.

        Args:
            weights: a weight for each feature.
        Returns:
            Positions among all hypotheses.
        Raises:
            UserError: if the weights belong to other features.
        """
        if weights.keys() != self.values.keys():
            raise UserError(
                f"The weights are for {', '.join(weights)}, but the hypotheses have "
                f"{', '.join(self.values)}: give each of these a weight."
            )
        columns = np.stack([*self.values.values()], axis=1)
        # A weight of 0 times minus infinity, the score of an impossible hypothesis, is not a
        # number; the lowest other number takes its place.
        possible = np.isfinite(columns)
        lowest = columns.min(axis=0, initial=0.0, where=possible)
        sums = np.where(possible, columns, lowest) @ [weights[name] for name in self.values]
        pairs = zip(self.bounds[:-1], self.bounds[1:])
        return np.array([begin + int(sums[begin:end].argmax()) for begin, end in pairs])


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
        path: a text file with one number per line.
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


def expected_utilities(
    hypotheses: Sequence[Hypothesis], utility: SentenceScore, temperature: float | None = None
) -> np.ndarray:
    """The expected utility of each hypothesis of a sentence, if another one were the reference.

    The hypothesis with the highest one has the minimum Bayes risk (Kumar and Byrne 2004, "Minimum
    Bayes-risk decoding for statistical machine translation").

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


def model_scores(
    checkpoint: str,
    data: str | None,
    lists: Sequence[NBest],
    options: "EnsembleOptions",
    load: "Callable[..., Model]",
) -> np.ndarray:
    """The mean log-probability in base 2 of the tokens of each hypothesis.

    Args:
        checkpoint: a model that reads and writes the tokens of the lists.
        data: folder of its dictionaries; None for that of the checkpoint or of its training data.
        lists: n-best lists with source tokens.
        options: precision, device and size of batches.
        load: builds the model, as ``translation.loading.load_model`` does.
    Raises:
        UserError: if the lists have no sources, or tokens that the model does not know, if a
            hypothesis is too long for the model, or if the model cannot be loaded.
    """
    from ..text.vocabulary import unknown_word
    from ..translation.ensemble import Ensemble
    from ..translation.forced import score_pairs
    from ..translation.loading import Places

    if any(each.source is None for each in lists):
        raise UserError(
            "--model needs the source tokens, which the n-best lists do not have (no lines "
            "S-NUMBER): make them with fairseq-generate."
        )
    folders = [Path(data)] if data else [Path(checkpoint).parent]
    places = Places(folders, with_training_data=data is None)
    ensemble = Ensemble([checkpoint], options, places, load)
    pairs = [
        (str(each.source), hypothesis.tokens) for each in lists for hypothesis in each.hypotheses
    ]
    for source, target in pairs:
        token = unknown_word(ensemble.source, source)
        token = unknown_word(ensemble.target, target) if token is None else token
        if token is not None:
            raise UserError(
                f"The n-best lists have the token {excerpt(token)}, which the dictionaries of "
                f"{checkpoint} do not have: --model needs a model of the same tokens, and lists of "
                "fairseq-generate without --remove-bpe."
            )
    return np.array([pair.score for pair in score_pairs(ensemble, pairs)])
