"""Choose the best of trials and of searches, by their scores on the validation sets."""

import statistics
from collections.abc import Collection, Iterable
from typing import Any

from .options import UPDATES, Options
from .values import Metric

Result = dict[str, Any]  # the content of a result.json
TITLES: dict[Metric, str] = {"bleu": "BLEU", "wer": "WER"}
# The numbers that add up over data sets.
SUMMED = ("updates", "train_minutes", "cpu_minutes")


def means_over_sets(results: Iterable[Result], sets: Collection[str]) -> list[Result]:
    """The results of runs, each with the mean scores of the same run on all data sets.

    The times and numbers of updates are sums over the data sets, other numbers are medians. Runs
    that are not done on all of them are omitted; a run diverged if it did so on any.

    Args:
        results: results of one system.
        sets: names of the data sets; none, or "", for results on the only one.
    """
    if not any(sets):
        return list(results)
    groups: dict[tuple[int, int | None], dict[str, Result]] = {}
    for result in results:
        if result.get("data_set") in sets:
            key = result["seed"], result["trial"]
            groups.setdefault(key, {})[result["data_set"]] = result
    return [
        _mean([group[name] for name in sets])
        for group in groups.values()
        if len(group) == len(sets)
    ]


def _mean(results: list[Result]) -> Result:
    """The result whose numbers represent those of several data sets."""
    mean = dict(results[0])
    if any(result.get("diverged") for result in results):
        return mean | {"diverged": True, "splits": {}}
    for key in results[0]:
        values: list[Any] = [result.get(key) for result in results]
        if key not in ("seed", "trial") and all(map(is_number, values)):
            mean[key] = sum(values) if key in SUMMED else statistics.median(values)
    splits = [split for split in results[0]["splits"] if all(split in r["splits"] for r in results)]
    mean["splits"] = {
        split: _mean_scores([result["splits"][split] for result in results]) for split in splits
    }
    return mean


def _mean_scores(scores: list[dict[str, Any]]) -> dict[str, Any]:
    """The means of the scores that all have, with what belongs to them, such as signatures."""
    means = {}
    for name in scores[0]:
        values: list[Any] = [each.get(name) for each in scores]
        if all(map(is_number, values)):
            means[name] = statistics.mean(values)
        elif not any(value is None or is_number(value) for value in values):
            means[name] = values[0]
    return means


def is_number(value: object) -> bool:
    """Whether a value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def ranked_trials(
    results: Iterable[Result], metric: Metric, sets: Collection[str] = ()
) -> list[Result]:
    """The results of the trials of a round, best first.

    They are ordered by their score on valid, and those with equal scores by their loss. Those that
    diverged are omitted.

    Args:
        results: the results.
        metric: the score.
        sets: the data sets over which the mean is taken.
    """

    def key(result: Result) -> tuple[float, float]:
        loss = result["valid_loss"]
        score = result["splits"]["valid"][metric]
        return metric_sign(metric) * score, float("inf") if loss is None else loss

    found = means_over_sets(results, sets)
    return sorted((each for each in found if not each.get("diverged")), key=key)


def metric_sign(metric: Metric) -> int:
    """1 if the smallest score is the best, -1 if it is the largest."""
    return 1 if metric == "wer" else -1


def has_options(train: Options, tried: Options) -> bool:
    """Whether a training run has the options of a trial. Values with UPDATES are not compared."""
    return all(
        train.get(name) == (None if value is False else value)
        or UPDATES.search(str(value)) is not None
        for name, value in tried.items()
        if name != "updates"
    )


def best_search(tried: Iterable[dict[str, Any]], metric: Metric) -> Options:
    """The search options with the best score, the first ones in a tie; {} if none were tried."""
    sign = metric_sign(metric)
    return min(tried, key=lambda each: sign * each[metric], default={"options": {}})["options"]
