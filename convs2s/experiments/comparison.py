"""The systems of an experiment over their seeds, and the tables that compare them."""

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from ..common.tables import MISSING, Table, number, speed
from ..common.text_files import read_sentences
from ..evaluation.scores import Significance, paired_bootstrap
from .file import Experiment, System
from .results import read_json
from .runs import arguments, has_options, ranked_trials

Result = dict[str, Any]  # the content of a result.json
Lines = tuple[str, ...]
VALID = "valid"
Cell = Callable[["Summary"], str]
# Its results are kept, because the report is written after each run.
compare = lru_cache(maxsize=256)(paired_bootstrap)


@dataclass(frozen=True)
class Summary:
    """The results of a system.

    Attributes:
        system: the system.
        runs: the results of its finished runs, in the order of their seeds.
        trials: the results of its finished trials, in order.
        chosen: the best trial, or None until all trials are finished.
        folders: the folders of the runs.
        speeds: unit -> ``median``, ``min`` and ``max``, from a measurement of speeds alone.
    """

    system: System
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
        return tuple(tuple(read_sentences(str(folder / f"{split}.hyp"))) for folder in self.folders)


class Comparison:
    """All results of an experiment, in the order of the tables.

    Args:
        out: folder of the experiment; it holds ``runs/``, ``references/`` and maybe ``speed.json``.
        results: the contents of the ``result.json`` of all finished runs, trials included.
        experiment: the experiment; its systems are in the order of the tables.
    Attributes:
        experiment: the experiment.
        summaries: the systems.
        tests: names of the test sets; the first one is the main one.
        differences: (name of the system, split) -> the difference to the baseline in sacreBLEU and
            its p-value. Pairs are left out if one of both systems has no run or has not translated
            the split, and so is the baseline itself.
    """

    def __init__(self, out: Path, results: Sequence[Result], experiment: Experiment):
        self.experiment = experiment
        speeds = read_json(out / "speed.json") or {}
        self.summaries = [
            self._summarize(
                system,
                [result for result in results if result["system"] == system.name],
                out / "runs",
                speeds.get(system.name, {}),
            )
            for system in experiment.systems.values()
        ]
        final = [result for result in results if result.get("trial") is None]
        splits = dict.fromkeys(split for run in final for split in run.get("splits", {}))
        self.tests = [split for split in splits if split != VALID]
        self.differences = dict(self._compare(out / "references"))

    def _summarize(
        self, system: System, results: Sequence[Result], runs: Path, speeds: dict[str, Any]
    ) -> Summary:
        """The results of a system, from its own results and the folder of all runs."""
        trials = [result for result in results if result.get("trial") is not None]
        trials.sort(key=lambda trial: trial["trial"])
        tried = len(system.trials)
        ranked = ranked_trials(trials, tried)
        is_complete = len(trials) == tried + min(self.experiment.tuning.finalists, tried)
        chosen = ranked[0] if ranked and is_complete else None
        # A better trial may have come after the final runs.
        options = {} if chosen is None else chosen.get("trial_options", {})
        final = [
            result
            for result in results
            if result.get("trial") is None and has_options(result.get("options", {}), options)
        ]
        final.sort(key=lambda run: run["seed"])
        folders = [runs / f"{system.folder_name}.{run['seed']}" for run in final]
        return Summary(system, final, trials, chosen, folders, speeds)

    def _compare(self, references: Path) -> Iterator[tuple[tuple[str, str], Significance]]:
        """Compare all systems with the baseline on all test sets."""
        base = self.baseline
        if base is None or not base.runs:
            return
        others = [each for each in self.summaries if each.runs and each is not base]
        for split in filter(base.has, self.tests or [VALID]):
            for summary in others:
                if summary.has(split):
                    lines = tuple(read_sentences(str(references / split)))
                    texts = base.translations(split), summary.translations(split)
                    yield (summary.system.name, split), compare(lines, *texts)

    @property
    def baseline(self) -> Summary | None:
        """The results of the baseline, if there is one."""
        name = self.experiment.baseline
        return next((each for each in self.summaries if each.system.name == name), None)

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
        if summary.system.name == self.experiment.baseline:
            return "baseline"
        found = self.differences.get((summary.system.name, split))
        if found is None:
            return MISSING
        digits = 3 if found.p < 0.01 else 2
        return f"{found.difference:+.2f} (p = {found.p:.{digits}f})"

    def table(self, columns: Iterable[tuple[str, Cell]]) -> Table:
        """A table with one line a system; columns are titles, and what they show of a system."""
        titles, cells = zip(*columns)
        return Table(titles, [[cell(summary) for cell in cells] for summary in self.summaries])


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


def score_cell(split: str, metric: str) -> Cell:
    """The mean of a score, with its deviation."""
    return lambda summary: mean_and_deviation(summary.scores(split, metric))


def main_columns(comparison: Comparison) -> Iterator[tuple[str, Cell]]:
    """The columns of the main table."""
    main = comparison.tests[0] if comparison.tests else VALID
    on_cpu = bool(comparison.devices) and all(name.startswith("CPU") for name in comparison.devices)
    minutes = "cpu_minutes" if on_cpu else "train_minutes"
    yield "System", lambda summary: summary.system.title
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
    for split in (VALID, *comparison.tests):
        yield f"BLEU {split}", score_cell(split, "bleu")
    yield comparison.label("sacreBLEU", main), score_cell(main, "sacrebleu")
    yield comparison.label("chrF", main), score_cell(main, "chrf")
    if comparison.experiment.baseline is not None:
        yield "Difference", lambda summary: comparison.difference(summary, main)
    yield "Seeds", lambda summary: str(len(summary.runs))


def columns_by_test_set(comparison: Comparison) -> Iterator[tuple[str, Cell]]:
    """The columns with sacreBLEU on each test set, and the difference to the baseline."""
    yield "System", lambda summary: summary.system.title
    for test in comparison.tests:
        yield test, score_cell(test, "sacrebleu")
        if comparison.experiment.baseline is not None:
            yield "Difference", partial(comparison.difference, split=test)


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
