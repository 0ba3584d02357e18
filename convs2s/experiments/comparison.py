"""The systems of an experiment over their seeds, and the tables that compare them."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.text_files import read_sentences
from .choices import Result, has_options, means_over_sets, ranked_trials
from .file import Experiment, System
from .records import read_json
from .runs import round_sizes

if TYPE_CHECKING:
    from ..evaluation.significance import Significance

Lines = tuple[str, ...]
VALID = "valid"
# The fewest seeds of two systems to compare their scores over seeds.
SEEDS = 3


# Its results are kept, because the report is written after each run.
@lru_cache(maxsize=256)
def compare(
    references: Lines, baseline: tuple[Lines, ...], system: tuple[Lines, ...], metric: str
) -> "Significance":
    """``paired_bootstrap``, whose packages would delay a report without anything to compare."""
    from ..evaluation.significance import paired_bootstrap

    return paired_bootstrap(references, baseline, system, metric=metric)


@dataclass(frozen=True)
class Summary:
    """The results of a system.

    Attributes:
        system: the system.
        runs: the results of its finished runs, in the order of their seeds; with several data
            sets, their means for the runs that are finished on all of them.
        trials: the results of its finished trials, in order; their means in the same way.
        chosen: the best trial, or None until all trials are finished.
        by_set: name of a data set -> the results of the finished runs on it.
        folder: the folder of all runs.
        speeds: unit -> ``median``, ``min`` and ``max``, from a measurement of speeds alone.
    """

    system: System
    runs: Sequence[Result]
    trials: Sequence[Result]
    chosen: Result | None
    by_set: dict[str, list[Result]]
    folder: Path
    speeds: dict[str, dict[str, float]]

    def median(self, key: str) -> float | None:
        """The median of a number over the runs, or None if no run has it."""
        values = [run[key] for run in self.runs if run.get(key) is not None]
        return statistics.median(values) if values else None

    def scores(self, split: str, metric: str, data_set: str = "") -> list[float]:
        """A score of all runs that have it, in the order of their seeds.

        Args:
            split, metric: what is scored, and how.
            data_set: one of several data sets; "" for the mean over all.
        """
        runs = self.by_set[data_set] if data_set else self.runs
        splits = (run.get("splits", {}).get(split, {}) for run in runs)
        return [scores[metric] for scores in splits if scores.get(metric) is not None]

    def has(self, split: str) -> bool:
        """Whether all runs have translated a split."""
        return all(split in run.get("splits", {}) for run in self.runs)

    def translations(self, split: str) -> tuple[Lines, ...]:
        """The plain translations of a split by each run."""
        names = (f"{self.system.folder_name}.{run['seed']}" for run in self.runs)
        return tuple(
            tuple(read_sentences(str(self.folder / name / f"{split}.hyp"))) for name in names
        )


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
        metric: the score whose differences are tested, sacreBLEU or the word error rate.
        differences: (name of the system, split) -> the difference to the baseline and its p-value:
            over sentences, or with several data sets over the data sets. Pairs are omitted if one
            of the two systems has no run or has not translated the split, and so is the baseline
            itself.
    """

    def __init__(self, out: Path, results: Sequence[Result], experiment: Experiment):
        self.experiment = experiment
        self.metric = "wer" if experiment.metric == "wer" else "sacrebleu"
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
        experiment, tuning = self.experiment, self.experiment.tuning
        sets, tried_on = experiment.data.sets, tuning.sets or experiment.data.sets
        tried = [result for result in results if result.get("trial") is not None]
        trials = sorted(means_over_sets(tried, tried_on), key=lambda trial: trial["trial"])
        sizes = round_sizes(system, tuning)
        last = [trial for trial in trials if trial["trial"] > sum(sizes[:-1])]
        ranked = ranked_trials(last, experiment.metric)
        chosen = ranked[0] if ranked and len(last) == sizes[-1] else None
        # A better trial may have come after the final runs.
        options = {} if chosen is None else chosen.get("trial_options", {})
        final = [
            result
            for result in results
            if result.get("trial") is None
            if result.get("trial_options") in ({}, None, options)
            if has_options(result.get("options", {}), options)
        ]
        final.sort(key=lambda run: run["seed"])
        by_set = {name: [run for run in final if run.get("data_set") == name] for name in sets}
        return Summary(system, means_over_sets(final, sets), trials, chosen, by_set, runs, speeds)

    def _compare(self, references: Path) -> Iterator[tuple[tuple[str, str], "Significance"]]:
        """Compare all systems with the baseline on all test sets."""
        base = self.baseline
        if base is None or not base.runs:
            return
        others = [each for each in self.summaries if each.runs and each is not base]
        for split in filter(base.has, self.tests or [VALID]):
            for summary in others:
                if not summary.has(split):
                    continue
                if self.experiment.data.sets:
                    found = self._over_data_sets(base, summary, split)
                else:
                    lines = tuple(read_sentences(str(references / split)))
                    texts = base.translations(split), summary.translations(split)
                    found = compare(lines, *texts, metric=self.experiment.metric)
                yield (summary.system.name, split), found

    def _over_data_sets(self, base: Summary, summary: Summary, split: str) -> "Significance":
        """The mean difference over data sets, and its p-value."""

        def mean(of: Summary, data_set: str) -> float:
            """The mean score on a data set, over the seeds that are done on all of them."""
            seeds = {run["seed"] for run in of.runs}
            runs = [run for run in of.by_set[data_set] if run["seed"] in seeds]
            return statistics.mean(replace(of, runs=runs).scores(split, self.metric))

        sets = self.experiment.data.sets
        differences = [mean(summary, name) - mean(base, name) for name in sets]
        from ..evaluation.significance import Significance, over_data_sets

        return Significance(statistics.mean(differences), over_data_sets(differences))

    def p_over_seeds(self, summary: Summary, split: str) -> float | None:
        """The p-value of the difference to the baseline over seeds; None with fewer than three."""
        base = self.baseline
        if base is None or base is summary:
            return None
        scores = [each.scores(split, self.metric) for each in (base, summary)]
        if min(map(len, scores)) < SEEDS:
            return None
        from ..evaluation.significance import over_seeds

        return over_seeds(*scores)

    @property
    def baseline(self) -> Summary | None:
        """The results of the baseline, if there is one."""
        name = self.experiment.baseline
        return next((each for each in self.summaries if each.system.name == name), None)

    @property
    def results(self) -> list[Result]:
        """The results of all trials and runs; with several data sets the means over them."""
        return [result for each in self.summaries for result in (*each.trials, *each.runs)]

    @property
    def devices(self) -> list[str]:
        """The devices of all runs."""
        names = (result["device"] for result in self.results if result.get("device"))
        return list(dict.fromkeys(names))
