"""The tables that compare the systems of an experiment."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..common.tables import MISSING, Table, number, speed
from .choices import TITLES, metric_sign
from .comparison import VALID, Comparison, Summary
from .options import arguments

Cell = Callable[[Summary], str]
# Further scores of the main test set, by the score that comes first.
OTHERS = {
    "bleu": {"sacreBLEU": "sacrebleu", "chrF": "chrf"},
    "wer": {"PER": "per"},
}


def label(comparison: Comparison, metric: str, split: str) -> str:
    """The title of a column: the test set is named only if there are several."""
    return f"{metric} {split}" if len(comparison.tests) > 1 else metric


def difference(comparison: Comparison, summary: Summary, split: str) -> str:
    """The cell with the difference to the baseline and its p-value."""
    if summary.system.name == comparison.experiment.baseline:
        return "baseline"
    found = comparison.differences.get((summary.system.name, split))
    return MISSING if found is None else f"{found.difference:+.2f} (p = {p_value(found.p)})"


def system_table(comparison: Comparison, columns: Iterable[tuple[str, Cell]]) -> Table:
    """A table with one line per system; columns are titles, and what they show of a system."""
    titles, cells = zip(*columns)
    return Table(titles, [[cell(summary) for cell in cells] for summary in comparison.summaries])


def mean_and_deviation(scores: Sequence[float]) -> str:
    """The mean, and with several scores their sample standard deviation (n - 1)."""
    if not scores:
        return MISSING
    mean = number(statistics.mean(scores))
    return f"{mean} ± {number(statistics.stdev(scores))}" if len(scores) > 1 else mean


def p_value(p: float | None) -> str:
    """A p-value for a table."""
    return MISSING if p is None else number(p, 3 if p < 0.01 else 2)


def millions(value: float | None) -> str:
    """A number of parameters in millions."""
    return number(None if value is None else value / 1e6)


def speed_cell(summary: Summary, key: str) -> str:
    """The measured speed with its range; without a measurement, the median of the runs' own."""
    if not summary.speeds:
        return speed(summary.median(key))
    measured = summary.speeds.get(key)
    if measured is None:
        return MISSING
    return f"{speed(measured['median'])} ({speed(measured['min'])}–{speed(measured['max'])})"


def score_cell(split: str, metric: str) -> Cell:
    """The mean of a score, with its deviation."""
    return lambda summary: mean_and_deviation(summary.scores(split, metric))


class Time(NamedTuple):
    """How long training runs took.

    Attributes:
        title: the unit.
        key: the number in the results.
    """

    title: str
    key: str


def time_of_training(comparison: Comparison) -> Time:
    """The CPU time, or the time by the clock if that is unknown."""
    devices = comparison.devices
    if devices and all(name.startswith("CPU") for name in devices):
        return Time("CPU minutes", "cpu_minutes")
    return Time("minutes", "train_minutes")


def main_columns(comparison: Comparison) -> Iterator[tuple[str, Cell]]:
    """The columns of the main table."""
    main = comparison.tests[0] if comparison.tests else VALID
    time = time_of_training(comparison)
    yield "System", lambda summary: summary.system.title
    yield (
        "Parameters without embeddings (M)",
        lambda summary: millions(summary.median("parameters_without_embeddings")),
    )
    yield "Parameters (M)", lambda summary: millions(summary.median("parameters"))
    yield (
        f"Training ({time.title})",
        lambda summary: number(summary.median(time.key), 1),
    )
    yield "Tokens/s", lambda summary: speed_cell(summary, "tokens_per_second")
    yield "Sentences/s", lambda summary: speed_cell(summary, "sentences_per_second")
    metric = comparison.experiment.metric
    for split in (VALID, *comparison.tests):
        yield f"{TITLES[metric]} {split}", score_cell(split, metric)
    for title, other in OTHERS[metric].items():
        yield label(comparison, title, main), score_cell(main, other)
    if any(summary.scores(main, "comet") for summary in comparison.summaries):
        yield label(comparison, "COMET", main), score_cell(main, "comet")
    if comparison.experiment.baseline is not None:
        yield "Difference", lambda summary: difference(comparison, summary, main)
        if any(comparison.p_over_seeds(each, main) is not None for each in comparison.summaries):
            yield "p over seeds", lambda summary: p_value(comparison.p_over_seeds(summary, main))
    yield "Seeds", lambda summary: str(len(summary.runs))


def columns_by_test_set(comparison: Comparison) -> Iterator[tuple[str, Cell]]:
    """The columns with the score on each test set, and the difference to the baseline."""
    yield "System", lambda summary: summary.system.title
    for test in comparison.tests:
        yield test, score_cell(test, comparison.metric)
        if comparison.experiment.baseline is not None:
            yield "Difference", partial(difference, comparison, split=test)


def equal_groups(comparison: Comparison, key: str, ratio: float) -> list[list[Summary]]:
    """Groups of systems with equally long training runs, the shortest first; none if all are.

    Those whose models continue others, or train on their translations, are left out: their numbers
    do not count the training of the others.

    Args:
        comparison: the comparison.
        key: "updates", or "cpu_minutes" or "train_minutes".
        ratio: the largest number of a group is at most this many times the smallest one.
    """
    known = [
        (length, each)
        for each in comparison.summaries
        if not each.system.needs_models and (length := each.median(key))
    ]
    groups: list[list[Summary]] = []
    smallest = 0.0
    for length, summary in sorted(known, key=lambda pair: pair[0]):
        if groups and length <= smallest * ratio:
            groups[-1].append(summary)
        else:
            groups.append([summary])
            smallest = length
    return [group for group in groups if 1 < len(group) < len(known)]


def equal_table(comparison: Comparison, groups: list[list[Summary]], title: str, key: str) -> Table:
    """The systems of each group, the best first.

    Args:
        comparison: the comparison.
        groups: see ``equal_groups``.
        title: title of the column with what is equal.
        key: see ``equal_groups``.
    """
    split, metric = comparison.tests[0] if comparison.tests else VALID, comparison.metric
    sign = metric_sign(comparison.experiment.metric)
    rows = []
    for group in groups:
        scored = [each for each in group if each.scores(split, metric)]
        scored.sort(key=lambda each: sign * statistics.mean(each.scores(split, metric)))
        rows += [
            [each.system.title, number(each.median(key), 0), score_cell(split, metric)(each)]
            for each in scored
        ]
    return Table(
        ["System", title, label(comparison, TITLES[comparison.experiment.metric], split)], rows
    )


def data_set_table(comparison: Comparison, split: str) -> Table:
    """One line per data set, one column per system, with its mean score over seeds."""
    titles = [summary.system.title for summary in comparison.summaries]
    rows = []
    for name in (*comparison.experiment.data.sets, ""):
        scores = [each.scores(split, comparison.metric, name) for each in comparison.summaries]
        rows.append([name or "mean", *map(mean_and_deviation, scores)])
    return Table(["Data set", *titles], rows)


def option_text(value: Any) -> str:
    """The value of an option, written as in the experiment's file; a dash if it is not set."""
    return MISSING if value is None else value if isinstance(value, str) else json.dumps(value)


def search_table(comparison: Comparison, summary: Summary) -> Table:
    """One line per seed of a system: scores on the validation set for all search options."""
    metric = comparison.experiment.metric
    runs = {str(run["seed"]): run for run in summary.runs}
    for name, found in summary.by_set.items():
        runs |= {f"{name}, {run['seed']}": run for run in found}
    if summary.by_set:
        runs = {name: run for name, run in runs.items() if "," in name}
    options = [each["options"] for each in summary.runs[0]["searches"]]
    headers = [" ".join(arguments(each)) or "none" for each in options]
    rows = []
    for name, run in runs.items():
        scores = [each[metric] for each in run["searches"]]
        best = min(scores, key=lambda score: metric_sign(metric) * score)
        cells = [number(score) for score in scores]
        rows.append([name, *cells, headers[scores.index(best)]])
    return Table(["Seed", *headers, "Chosen"], rows)


def trial_table(comparison: Comparison, summary: Summary) -> Table:
    """One line per trial of a system, with the options in which its trials differ."""
    trials, metric = summary.trials, comparison.experiment.metric
    options = [trial.get("options", {}) for trial in trials]
    names = dict.fromkeys(name for each in options for name in each)
    values = {name: [option_text(each.get(name)) for each in options] for name in names}
    different = [name for name, texts in values.items() if len(set(texts)) > 1]
    rows = [
        [
            str(trial["trial"]),
            *(values[name][line] for name in different),
            number(trial.get("updates"), 0),
            number(trial.get("valid_loss"), 3),
            "diverged"
            if trial.get("diverged")
            else number(trial.get("splits", {}).get(VALID, {}).get(metric)),
            "yes" if trial is summary.chosen else "",
        ]
        for line, trial in enumerate(trials)
    ]
    score = f"{TITLES[metric]} {VALID}"
    return Table(["Trial", *different, "Updates", "Valid loss", score, "Chosen"], rows)
