"""Scores and p-values against sacreBLEU's own."""

import itertools
import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from convs2s.common.errors import UserError
from convs2s.evaluation.scores import error_rates, score
from convs2s.evaluation.significance import over_data_sets, over_seeds, paired_bootstrap

WORDS = "a small dog runs over the green grass , and two men watch it play .".split()


def corpus(size=120, seed=1):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(1, 14))) for _ in range(size)]


def noisy(references, share, seed=2):
    """References with a share of their words replaced."""
    generator = random.Random(seed)
    return [
        " ".join(
            generator.choice(WORDS) if generator.random() < share else word for word in line.split()
        )
        for line in references
    ]


REFERENCES = corpus()


def test_scores_are_those_of_sacrebleu():
    hypotheses = noisy(REFERENCES, 0.3)
    scores = score(hypotheses, REFERENCES)
    bleu = BLEU().corpus_score(hypotheses, [REFERENCES])
    assert scores["sacrebleu"] == bleu.score
    assert scores["chrf"] == CHRF().corpus_score(hypotheses, [REFERENCES]).score
    assert scores["length_ratio"] == bleu.ratio
    assert scores["sacrebleu_signature"].startswith(
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    )
    assert scores["chrf_signature"].startswith(
        "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:"
    )


def test_the_length_ratio_counts_tokens():
    scores = score(["a dog runs", ""], ["a dog runs .", "it plays"])
    assert scores["length_ratio"] == 3 / 6


def test_translations_without_a_correct_word_score_zero():
    assert score([""], ["a dog"])["sacrebleu"] == 0


@pytest.mark.parametrize(
    "hypotheses, references, message",
    [
        (["a"], ["a", "b"], "There are 1 translations, but 2 references"),
        ([], [], "no translations to score"),
    ],
)
def test_line_counts_must_agree(hypotheses, references, message):
    with pytest.raises(UserError, match=message):
        score(hypotheses, references)
    with pytest.raises(UserError, match=message):
        paired_bootstrap(references, [hypotheses], [hypotheses])


@pytest.mark.parametrize("baseline, system", [(0.3, 0.28), (0.3, 0.31), (0.3, 0.25), (0.25, 0.3)])
def test_one_seed_agrees_with_sacrebleu(baseline, system):
    baseline, system = noisy(REFERENCES, baseline, 3), noisy(REFERENCES, system, 4)
    systems = [("baseline", baseline), ("system", system)]
    test = PairedTest(systems, {"BLEU": BLEU()}, [REFERENCES], test_type="bs", n_samples=300)
    expected = test()[1]["BLEU"]
    found = paired_bootstrap(REFERENCES, [baseline], [system], samples=300)
    assert found.difference == pytest.approx(expected[1].score - expected[0].score)
    assert found.p == expected[1].p_value


def test_identical_systems_do_not_differ():
    hypotheses = noisy(REFERENCES, 0.3)
    assert paired_bootstrap(REFERENCES, [hypotheses], [hypotheses], samples=100) == (0, 1)


def test_one_sentence_is_not_significant():
    found = paired_bootstrap(["a b c d"], [["a b c"]], [["a b c d"]], samples=100)
    assert found.difference > 0 and found.p == 1


def test_a_better_system_is_significant():
    baseline = [noisy(REFERENCES, 0.5, seed) for seed in (1, 2)]
    system = [noisy(REFERENCES, 0.1, seed) for seed in (3, 4, 5)]
    better = paired_bootstrap(REFERENCES, baseline, system, samples=300)
    assert better.difference > 10 and better.p < 0.01
    worse = paired_bootstrap(REFERENCES, system, baseline, samples=300)
    assert worse == (pytest.approx(-better.difference), better.p)


def test_the_difference_is_that_of_the_means_over_seeds():
    baseline = [noisy(REFERENCES, 0.3, seed) for seed in (1, 2, 3)]
    system = [noisy(REFERENCES, 0.2, 4)]
    found = paired_bootstrap(REFERENCES, baseline, system, samples=20)
    mean = sum(score(lines, REFERENCES)["sacrebleu"] for lines in baseline) / 3
    assert found.difference == pytest.approx(score(system[0], REFERENCES)["sacrebleu"] - mean)


def test_copies_of_a_seed_change_nothing():
    baseline, system = noisy(REFERENCES, 0.3, 3), noisy(REFERENCES, 0.28, 4)
    once = paired_bootstrap(REFERENCES, [baseline], [system], samples=100)
    twice = paired_bootstrap(REFERENCES, [baseline] * 2, [system] * 2, samples=100)
    assert twice == pytest.approx(once)


def test_error_rates():
    rates = error_rates(["a b", "a c", "x"], ["a b", "a b c", "y z"])
    assert rates == {"wer": pytest.approx(200 / 3), "per": pytest.approx(100 * 3 / 7)}
    with pytest.raises(UserError, match="2 translations, but 1 references"):
        error_rates(["a", "b"], ["a"])


def test_the_bootstrap_of_error_rates_is_that_of_the_definition():
    baseline, system = noisy(REFERENCES, 0.05, 3), noisy(REFERENCES, 0.03, 4)
    found = paired_bootstrap(REFERENCES, [baseline], [system], samples=200, metric="wer")
    differences = np.array(
        [100 * ((s != r) - float(b != r)) for b, s, r in zip(baseline, system, REFERENCES)]
    )
    assert found.difference == pytest.approx(differences.mean())
    rng = np.random.default_rng(12345)
    drawn = [differences[rng.choice(len(differences), size=len(differences))] for _ in range(200)]
    distances = np.abs([sample.mean() for sample in drawn])
    extreme = np.sum(distances - distances.mean() >= abs(differences.mean()) - 1e-12)
    assert found.p == pytest.approx((extreme + 1) / 201)


@pytest.mark.parametrize("spread", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (3, 8), (12, 5)])
def test_the_test_over_seeds_is_that_of_scipy(sizes, spread):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(sum(sizes))
    baseline = rng.normal(40, 1, sizes[0])
    system = rng.normal(41, spread, sizes[1])
    expected = stats.ttest_ind(system, baseline, equal_var=False).pvalue
    assert over_seeds(baseline, system) == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert over_seeds(baseline, baseline) == pytest.approx(1)
    assert over_seeds([1, 1], [2, 2]) == 0 and over_seeds([1, 1], [1, 1]) == 1
    # The mean of these six numbers is rounded, and differs from each of them.
    assert over_seeds([1.3781240771943] * 2, [1.3781240771943] * 6) == 1


def test_the_test_over_data_sets_tries_all_signs():
    differences = [0.5, 1.0, -0.2, 2.0, 0.3]
    signs = itertools.product((-1, 1), repeat=5)
    sums = [abs(sum(s * d for s, d in zip(each, differences))) for each in signs]
    expected = sum(total >= sum(differences) - 1e-9 for total in sums) / 32
    assert over_data_sets(differences) == expected
    assert over_data_sets([1.0] * 6) == 2 / 64
    # Of more data sets, random signs are tried.
    assert over_data_sets([1.0] * 30) < 1e-4 and over_data_sets([1.0, -1.0] * 15) == 1
