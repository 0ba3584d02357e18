"""Means of the scores on several data sets, and the best trials and searches."""

import pytest

from convs2s.experiments.choices import best_search, has_options, means_over_sets, ranked_trials


def test_a_score_that_one_data_set_lacks_has_no_mean():
    """COMET was computed for some of the runs only."""

    def result(name, **scores):
        splits = {"valid": {"bleu": 1.0}, "test": {"signature": "13a", **scores}}
        return {"data_set": name, "seed": 1, "trial": None, "updates": 5, "splits": splits}

    one, two = result("one", bleu=10.0, comet=80.0), result("two", bleu=20.0)
    for results in ([one, two], [two, one]):
        (mean,) = means_over_sets(results, ["one", "two"])
        assert mean["splits"] == {"valid": {"bleu": 1}, "test": {"signature": "13a", "bleu": 15}}


def trial(number, score=0.0, data_set="", metric="bleu", **values):
    splits = {"valid": {metric: score}}
    return {"seed": 1, "trial": number, "data_set": data_set, "splits": splits, **values}


def test_times_are_sums_and_other_numbers_medians():
    numbers = {
        "one": {"updates": 5, "train_minutes": 1.5, "cpu_minutes": 2, "valid_loss": 4.0},
        "two": {"updates": 6, "train_minutes": 2.5, "cpu_minutes": 3, "valid_loss": 1.0},
        "three": {"updates": 7, "train_minutes": 3.5, "cpu_minutes": 7, "valid_loss": 2.0},
    }
    results = [
        trial(2, score, name, is_new=name != "one", **numbers[name])
        for name, score in zip(numbers, (10.0, 20.0, 60.0))
    ]
    # A run that is missing on a data set, and one on another.
    others = [trial(1, 99.0, "one"), trial(1, 99.0, "two"), trial(3, 99.0, "four")]
    (mean,) = means_over_sets([*results, *others], [*numbers])
    assert mean["splits"] == {"valid": {"bleu": 30}} and mean["trial"] == 2
    assert (mean["updates"], mean["train_minutes"], mean["cpu_minutes"]) == (18, 7.5, 12)
    assert mean["valid_loss"] == 2 and mean["is_new"] is False
    assert means_over_sets(others, [""]) == others


def test_a_run_that_diverged_on_one_data_set():
    results = [trial(1, 5.0, "one"), trial(1, 0.0, "two", diverged=True)]
    (mean,) = means_over_sets(results, ["one", "two"])
    assert mean["diverged"] is True and mean["splits"] == {}


@pytest.mark.parametrize("metric, numbers", [("bleu", [4, 3, 1, 2]), ("wer", [2, 3, 1, 4])])
def test_trials_are_ranked_by_score_and_then_by_loss(metric, numbers):
    results = [
        trial(1, 20.0, metric=metric, valid_loss=None),
        trial(2, 10.0, metric=metric, valid_loss=1.0),
        trial(3, 20.0, metric=metric, valid_loss=9.0),
        trial(4, 30.0, metric=metric, valid_loss=5.0),
        trial(5, 99.0, metric=metric, valid_loss=0.1, diverged=True),
    ]
    assert [result["trial"] for result in ranked_trials(results, metric)] == numbers


def test_the_first_of_the_best_searches():
    tried = [
        {"options": {"beam": beam}, "bleu": score, "wer": score}
        for beam, score in ((1, 10.0), (2, 20.0), (3, 20.0), (4, 10.0))
    ]
    assert best_search(tried, "bleu") == {"beam": 2} and best_search(tried, "wer") == {"beam": 1}
    assert best_search([], "bleu") == {}


def test_options_of_a_trial():
    train = {"lr": 0.1, "warmup": 400, "optimizer": "adam"}
    assert has_options(
        train, {"lr": 0.1, "updates": 7, "clip": False, "warmup": "{10% of updates}"}
    )
    assert not has_options(train, {"lr": 0.2}) and not has_options(train, {"clip": True})
    assert not has_options({"clip": True}, {"clip": False})
