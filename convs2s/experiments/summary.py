"""A system's results over its seeds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..evaluation.scores import Significance, paired_bootstrap
from .file import System
from .results import read_lines
from .runs import has_options, ranked_trials

Result = dict[str, Any]  # the content of a result.json
Lines = tuple[str, ...]
VALID = "valid"


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
                *(system.name, system.title, runs, trials, chosen),
                *(folders, speeds.get(system.name, {})),
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
