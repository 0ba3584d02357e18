"""Scores of single sentences against sacreBLEU's."""

import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from convs2s.evaluation.sentence_scores import SENTENCE_SCORES

METRICS = {
    "bleu": BLEU(tokenize="none", smooth_method="add-k", smooth_value=1, force=True),
    "chrf": CHRF(),
}


def pairs():
    numbers = random.Random(1)
    words = "der die hund hunde läuft . ein zwei".split()

    def sentence():
        return " ".join(numbers.choice(words) for _ in range(numbers.randint(0, 9)))

    return [(sentence(), sentence()) for _ in range(60)] + [("", "hund"), ("hund", "hund")]


@pytest.mark.parametrize("name", SENTENCE_SCORES)
def test_scores_equal_sacrebleus(name):
    score = SENTENCE_SCORES[name]()
    found = [score.score(*pair) for pair in pairs()]
    expected = [METRICS[name].sentence_score(first, [second]).score for first, second in pairs()]
    assert found == pytest.approx([value / 100 for value in expected])
    assert len(set(found)) > 20


def test_smoothing_of_bleu():
    """Three words with one bigram in common, and the brevity penalty of a fourth word."""
    precisions = (2 / 3) * (2 / 3) * (1 / 2) * (1 / 1)
    expected = 2.718281828459045 ** (1 - 4 / 3) * precisions**0.25
    assert SENTENCE_SCORES["bleu"]().score("a b x", "a b c d") == pytest.approx(expected)
