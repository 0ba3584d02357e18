"""Means of the scores on several data sets."""

from convs2s.experiments.choices import means_over_sets


def test_a_score_that_one_data_set_lacks_has_no_mean():
    """COMET was computed for some of the runs only."""

    def result(name, **scores):
        splits = {"valid": {"bleu": 1.0}, "test": {"signature": "13a", **scores}}
        return {"data_set": name, "seed": 1, "trial": None, "updates": 5, "splits": splits}

    one, two = result("one", bleu=10.0, comet=80.0), result("two", bleu=20.0)
    for results in ([one, two], [two, one]):
        (mean,) = means_over_sets(results, ["one", "two"])
        assert mean["splits"] == {"valid": {"bleu": 1}, "test": {"signature": "13a", "bleu": 15}}
