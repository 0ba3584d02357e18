"""A system's results over its seeds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..text_files import read_lines
from .significance import Significance, paired_bootstrap

Result = dict[str, Any]  # the content of a result.json
VALID = "valid"


@dataclass(frozen=True)
class Summary:
    """The results of a system.

    Attributes:
        name: name of the system in the experiment's file.
        title: its title.
        runs: the results of its finished runs, in the order of their seeds.
        trials: the results of its finished trials, in order.
        folders: the folders of the runs.
        speeds: unit -> ``median``, ``min`` and ``max``, from a measurement of speeds alone.
    """

    name: str
    title: str
    runs: Sequence[Result]
    trials: Sequence[Result]
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

    def translations(self, split: str) -> list[list[str]]:
        """The plain translations of a split, one list a run."""
        return [read_text(folder / f"{split}.hyp") for folder in self.folders]


def read_text(path: Path) -> list[str]:
    """Read the lines of a file, without line ends."""
    return [line.rstrip("\n") for line in read_lines(str(path))]


def summarize(
    out: Path, results: Iterable[Result], systems: Iterable[Any], speeds: dict[str, Any]
) -> list[Summary]:
    """Group results by system, in the order of the experiment's file.

    Args:
        out: folder of the experiment.
        results: results of runs and trials, in any order.
        systems: the systems of the experiment.
        speeds: the content of ``speed.json``.
    """
    results = list(results)
    summaries = []
    for system in systems:
        mine = [result for result in results if result["system"] == system.name]
        runs = [result for result in mine if result.get("trial") is None]
        runs.sort(key=lambda run: run["seed"])
        trials = [result for result in mine if result.get("trial") is not None]
        trials.sort(key=lambda trial: trial["trial"])
        folders = [out / "runs" / f"{system.folder_name}.{run['seed']}" for run in runs]
        measured = speeds.get(system.name, {})
        summaries.append(Summary(system.name, system.title, runs, trials, folders, measured))
    return summaries


def split_names(results: Iterable[Result]) -> list[str]:
    """The names of the test sets, in the order of the results."""
    names = (name for result in results for name in result.get("splits", {}) if name != VALID)
    return list(dict.fromkeys(names))


def best_trial(trials: Sequence[Result]) -> Result | None:
    """The trial with the highest BLEU on the validation set; of equal ones, the lower loss."""

    def rank(trial: Result) -> tuple[float, float]:
        loss = trial.get("valid_loss")
        bleu = trial.get("splits", {}).get(VALID, {}).get("bleu")
        infinity = float("inf")
        return -infinity if bleu is None else bleu, -infinity if loss is None else -loss

    return max(trials, key=rank, default=None)


def differences(
    out: Path, summaries: Sequence[Summary], baseline: str | None, splits: Iterable[str]
) -> dict[tuple[str, str], Significance]:
    """Compare all systems with the baseline on all test sets, by sacreBLEU.

    Returns:
        (name of the system, split) -> the difference and its p-value. Pairs without runs of either
        system are left out, and so is the baseline itself.
    """
    base = next((summary for summary in summaries if summary.name == baseline), None)
    if base is None or not base.runs:
        return {}
    others = [summary for summary in summaries if summary.runs and summary is not base]
    found = {}
    for split in splits if others else ():
        references = read_text(out / "references" / split)
        translations = base.translations(split)
        for summary in others:
            system = summary.translations(split)
            found[summary.name, split] = paired_bootstrap(references, translations, system)
    return found
