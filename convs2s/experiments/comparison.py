"""The systems of an experiment over their seeds, and the tables that compare them."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..common.tables import MISSING, Table, number, speed
from ..evaluation.scores import Significance, paired_bootstrap
from .file import System
from .results import read_lines
from .runs import arguments, has_options, ranked_trials

Result = dict[str, Any]  # the content of a result.json
Lines = tuple[str, ...]
VALID = "valid"
Cell = Callable[["Summary"], str]


@dataclass(frozen=True)
class Summary:
    """The results of a system.

    Attributes:
        name: name of the system in the experiment's file.
        title: its title.
        runs: the results of its finished runs, in the order of their seeds.
        trials: the results of its finished trials, in order.
        chosen: the best trial, or None until all trials are finished.
        folders: the folders of the runs.
        speeds: unit -> ``median``, ``min`` and ``max``, from a measurement of speeds alone.
    """

    name: str
    title: str
    runs: Sequence[Result]
    trials: Sequence[Result]
    chosen: Result | None
    folders: Sequence[Path]
    speeds: dict[str, dict[str, float]]

    def median(self, key: str) -> float | None:
        """The median of a number over the runs, or None if no run has it."""
        values = [run[key] for run in self.runs if run.get(key) is not None]
        return statistics.median(values) if values else None

    def scores(self, split: str, metric: str) -> list[float]:
        """A score of all runs that have it, in the order of their seeds."""
        splits = (run.get("splits", {}).get(split, {}) for run in self.runs)
        return [scores[metric] for scores in splits if scores.get(metric) is not None]

    def has(self, split: str) -> bool:
        """All runs have translated a split."""
        return all(split in run.get("splits", {}) for run in self.runs)

    def translations(self, split: str) -> tuple[Lines, ...]:
        """The plain translations of a split by each run."""
        return tuple(tuple(read_lines(folder / f"{split}.hyp")) for folder in self.folders)


def summarize(
    out: Path,
    results: Iterable[Result],
    systems: Iterable[System],
    speeds: dict[str, Any],
    finalists: int = 0,
) -> list[Summary]:
    """Group results by system, in the order of the experiment's file.

    Args:
        out: folder of the experiment.
        results: results of runs and trials, in any order.
        systems: the systems of the experiment.
        speeds: the content of ``speed.json``.
        finalists: number of finalists of each system with trials, at most that of its trials.
    """
    results = list(results)
    summaries = []
    for system in systems:
        mine = [result for result in results if result["system"] == system.name]
        runs = [result for result in mine if result.get("trial") is None]
        runs.sort(key=lambda run: run["seed"])
        trials = [result for result in mine if result.get("trial") is not None]
        trials.sort(key=lambda trial: trial["trial"])
        number = len(system.trials)
        chosen = chosen_trial(trials, number, number + min(finalists, number))
        # A better trial may have come after the final runs.
        tried = {} if chosen is None else chosen.get("trial_options", {})
        runs = [run for run in runs if has_options(run.get("options", {}), tried)]
        folders = [out / "runs" / f"{system.folder_name}.{run['seed']}" for run in runs]
        summaries.append(
            Summary(
                system.name,
                system.title,
                runs,
                trials,
                chosen,
                folders,
                speeds.get(system.name, {}),
            )
        )
    return summaries


def chosen_trial(trials: Sequence[Result], tried: int, number: int) -> Result | None:
    """The best trial, or None until there are as many as ``number``, finalists included."""
    ranked = ranked_trials(trials, tried)
    return ranked[0] if ranked and len(trials) == number else None


def split_names(results: Iterable[Result]) -> list[str]:
    """The names of the test sets, in the order of the results."""
    names = (name for result in results for name in result.get("splits", {}) if name != VALID)
    return list(dict.fromkeys(names))


@lru_cache(maxsize=256)
def compare(
    references: Lines, baseline: tuple[Lines, ...], system: tuple[Lines, ...]
) -> Significance:
    """``paired_bootstrap``; kept, because the report is written after each run."""
    return paired_bootstrap(references, baseline, system)


def differences(
    out: Path, summaries: Sequence[Summary], baseline: str | None, splits: Iterable[str]
) -> dict[tuple[str, str], Significance]:
    """Compare all systems with the baseline on all test sets, by sacreBLEU.

    Returns:
        (name of the system, split) -> the difference and its p-value. Pairs are left out if one of
        both systems has no run or has not translated the split, and so is the baseline itself.
    """
    base = next((summary for summary in summaries if summary.name == baseline), None)
    if base is None or not base.runs:
        return {}
    others = [summary for summary in summaries if summary.runs and summary is not base]
    found = {}
    for split in splits:
        both = [summary for summary in others if summary.has(split)] if base.has(split) else []
        if not both:
            continue
        references = tuple(read_lines(out / "references" / split))
        translations = base.translations(split)
        for summary in both:
            system = summary.translations(split)
            found[summary.name, split] = compare(references, translations, system)
    return found


@dataclass(frozen=True)
class Comparison:
    """All results of an experiment, in the order of the tables.

    Attributes:
        title: title of the experiment.
        baseline: name of the baseline, or None.
        limit_updates: maximum number of updates of each run, or None.
        summaries: the systems.
        tests: names of the test sets; the first one is the main one.
        differences: see ``summary.differences``.
    """

    title: str
    baseline: str | None
    limit_updates: int | None
    summaries: Sequence[Summary]
    tests: Sequence[str]
    differences: dict[tuple[str, str], Significance]

    @property
    def runs(self) -> list[Result]:
        """The results of all runs, without trials."""
        return [run for summary in self.summaries for run in summary.runs]

    @property
    def results(self) -> list[Result]:
        """The results of all trials and runs."""
        return [result for each in self.summaries for result in (*each.trials, *each.runs)]

    @property
    def devices(self) -> list[str]:
        """The devices of all runs."""
        names = (result["device"] for result in self.results if result.get("device"))
        return list(dict.fromkeys(names))

    def label(self, metric: str, split: str) -> str:
        """The title of a column: the test set is named only if there are several."""
        return f"{metric} {split}" if len(self.tests) > 1 else metric

    def difference(self, summary: Summary, split: str) -> str:
        """The cell with the difference to the baseline and its p-value."""
        if summary.name == self.baseline:
            return "baseline"
        found = self.differences.get((summary.name, split))
        if found is None:
            return MISSING
        digits = 3 if found.p < 0.01 else 2
        return f"{found.difference:+.2f} (p = {found.p:.{digits}f})"


def mean_and_deviation(scores: Sequence[float]) -> str:
    """The mean, and with several scores their sample standard deviation (n - 1)."""
    if not scores:
        return MISSING
    mean = number(statistics.mean(scores))
    return f"{mean} ± {number(statistics.stdev(scores))}" if len(scores) > 1 else mean


def millions(value: float | None) -> str:
    """A number of parameters in millions."""
    return number(None if value is None else value / 1e6)


def speed_cell(summary: Summary, key: str) -> str:
    """The measured speed with its range; without any measurement, the median of the runs' own."""
    if not summary.speeds:
        return speed(summary.median(key))
    measured = summary.speeds.get(key)
    if measured is None:
        return MISSING
    return f"{speed(measured['median'])} ({speed(measured['min'])}–{speed(measured['max'])})"


def main_columns(comparison: Comparison) -> Iterator[tuple[str, Cell]]:
    """The columns of the main table: their titles, and what they show of a system."""

    def score(split: str, metric: str) -> Cell:
        return lambda summary: mean_and_deviation(summary.scores(split, metric))

    main = comparison.tests[0] if comparison.tests else VALID
    on_cpu = bool(comparison.devices) and all(name.startswith("CPU") for name in comparison.devices)
    minutes = "cpu_minutes" if on_cpu else "train_minutes"
    yield "System", lambda summary: summary.title
    yield (
        "Parameters without embeddings (M)",
        lambda summary: millions(summary.median("parameters_without_embeddings")),
    )
    yield "Parameters (M)", lambda summary: millions(summary.median("parameters"))
    yield (
        "Training (CPU minutes)" if on_cpu else "Training (minutes)",
        lambda summary: number(summary.median(minutes), 1),
    )
    yield "Tokens/s", lambda summary: speed_cell(summary, "tokens_per_second")
    yield "Sentences/s", lambda summary: speed_cell(summary, "sentences_per_second")
    yield f"BLEU {VALID}", score(VALID, "bleu")
    for test in comparison.tests:
        yield f"BLEU {test}", score(test, "bleu")
    yield comparison.label("sacreBLEU", main), score(main, "sacrebleu")
    yield comparison.label("chrF", main), score(main, "chrf")
    if comparison.baseline is not None:
        yield "Difference", lambda summary: comparison.difference(summary, main)
    yield "Seeds", lambda summary: str(len(summary.runs))


def main_table(comparison: Comparison) -> Table:
    """One line a system."""
    columns = list(main_columns(comparison))
    rows = [[cell(summary) for _, cell in columns] for summary in comparison.summaries]
    return Table([title for title, _ in columns], rows)


def table_by_test_set(comparison: Comparison) -> Table:
    """sacreBLEU of each system on each test set, with the difference to the baseline."""
    headers, rows = ["System"], [[summary.title] for summary in comparison.summaries]
    for test in comparison.tests:
        headers.append(test)
        for row, summary in zip(rows, comparison.summaries):
            row.append(mean_and_deviation(summary.scores(test, "sacrebleu")))
        if comparison.baseline is not None:
            headers.append("Difference")
            for row, summary in zip(rows, comparison.summaries):
                row.append(comparison.difference(summary, test))
    return Table(headers, rows)


def option_text(value: Any) -> str:
    """The value of an option as in the experiment's file; a dash if it is not set."""
    return MISSING if value is None else value if isinstance(value, str) else json.dumps(value)


def search_table(summary: Summary) -> Table:
    """One line a seed of a system, with BLEU on the validation set for all search options tried."""
    options = [each["options"] for each in summary.runs[0]["searches"]]
    headers = [" ".join(arguments(each)) or "none" for each in options]
    rows = []
    for run in summary.runs:
        scores = [each["bleu"] for each in run["searches"]]
        cells = [number(score) for score in scores]
        rows.append([str(run["seed"]), *cells, headers[scores.index(max(scores))]])
    return Table(["Seed", *headers, "Chosen"], rows)


def trial_table(summary: Summary) -> Table:
    """One line a trial of a system, with the options in which its trials differ."""
    trials = summary.trials
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
            else number(trial.get("splits", {}).get(VALID, {}).get("bleu")),
            "yes" if trial is summary.chosen else "",
        ]
        for line, trial in enumerate(trials)
    ]
    return Table(["Trial", *different, "Updates", "Valid loss", f"BLEU {VALID}", "Chosen"], rows)
