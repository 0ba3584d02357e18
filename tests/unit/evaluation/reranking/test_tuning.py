"""Tuned weights: line searches against a fine grid, and what a useful feature is worth."""

import numpy as np
import pytest

from convs2s.evaluation.reranking.features import Features
from convs2s.evaluation.reranking.tuning import _search_line, tune, upper_envelope
from convs2s.evaluation.significance import corpus_bleu, sentence_statistics

WORDS = "a b c d e f g h i".split()


def made_up(sentences=12, size=5, seed=1):
    """Hypotheses of which the feature ``useful`` knows, roughly, how good they are."""
    numbers = np.random.default_rng(seed)
    references = [" ".join(numbers.choice(WORDS, 8)) for _ in range(sentences)]
    texts, useful = [], []
    for reference in references:
        for _ in range(size):
            wrong = int(numbers.integers(0, 6))
            words = reference.split()
            for place in numbers.choice(8, wrong, replace=False):
                words[place] = "x"
            texts.append(" ".join(words))
            useful.append(-wrong + numbers.normal())
    values = {"score": numbers.normal(size=len(texts)), "useful": np.array(useful) / 100}
    bounds = np.arange(0, len(texts) + 1, size)
    return Features(values, bounds), texts, references


def bleu(features, statistics, weights):
    return corpus_bleu(statistics[features.best(weights)].sum(axis=0))


def test_tuned_weights_use_the_useful_feature():
    features, texts, references = made_up()
    repeated = [text for text in references for _ in range(5)]
    statistics = sentence_statistics(texts, repeated)
    tuned = tune(features, texts, references)
    assert tuned.bleu == pytest.approx(bleu(features, statistics, tuned.weights))
    assert tuned.bleu > bleu(features, statistics, {"score": 1.0, "useful": 0.0}) + 10
    assert tuned.bleu >= bleu(features, statistics, {"score": 0.0, "useful": 1.0})
    assert tune(features, texts, references) == tuned


def test_a_feature_without_differences_has_the_weight_0():
    """Such as the scores of a program that gives all hypotheses of a sentence the same one."""
    features, texts, references = made_up()
    numbers = np.random.default_rng(1)
    noise = {f"noise{i}": numbers.normal(size=60) for i in range(4)}
    score, same = features.values["score"], np.repeat(np.arange(12.0), 5)
    found = Features({**noise, "score": score, "same": same}, features.bounds)
    tuned = tune(found, texts, references)
    assert tuned.weights["same"] == 0.0 and tuned.weights["noise0"] != 0.0


def test_impossible_hypotheses():
    features, texts, references = made_up()
    scores = np.where(np.arange(60) % 5 == 4, -np.inf, features.values["score"])
    impossible = Features({**features.values, "score": scores}, features.bounds)
    with np.errstate(invalid="raise"):
        tuned = tune(impossible, texts, references)
    assert tuned.weights["useful"] > 0.0 and np.isfinite(list(tuned.weights.values())).all()


def test_a_line_search_finds_the_best_step():
    features, texts, references = made_up()
    statistics = sentence_statistics(texts, [text for text in references for _ in range(5)])
    sums, slopes = features.values["score"], features.values["useful"] * 100
    step, found = _search_line(sums, slopes, features, statistics)
    steps = np.linspace(-20, 20, 4001)
    best = max(
        corpus_bleu(statistics[features.best_of(sums + t * slopes)].sum(axis=0)) for t in steps
    )
    assert found >= best - 1e-9
    chosen = features.best_of(sums + step * slopes)
    assert corpus_bleu(statistics[chosen].sum(axis=0)) == pytest.approx(found)


def test_the_envelope_is_the_maximum():
    numbers = np.random.default_rng(3)
    offsets = numbers.normal(size=30)
    slopes = numbers.integers(-4, 5, 30).astype(float)
    envelope = list(upper_envelope(offsets, slopes))
    begins = [begin for begin, _ in envelope]
    assert begins[0] == -np.inf and begins == sorted(begins)
    for t in np.linspace(-10, 10, 101):
        (*_, line) = (line for begin, line in envelope if begin <= t)
        assert offsets[line] + t * slopes[line] == pytest.approx((offsets + t * slopes).max())
