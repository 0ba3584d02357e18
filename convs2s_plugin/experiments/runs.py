"""The runs of an experiment and the options of their programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .file import Experiment, Options, System


@dataclass(frozen=True)
class Run:
    """A training of a system and its translations, or only the translations.

    Attributes:
        system: the system.
        seed: seed of the training.
        updates: number of updates; None if a training option ends it.
        train: options of fairseq-train. If the system has trials, those of the best one are
            missing until the trials are done; see ``with_options``.
        trial: number of the trial, counted from 1; None for a final run.
        search: options of fairseq-generate that were chosen on the validation set.
    """

    system: System
    seed: int
    updates: int | None
    train: Options
    trial: int | None = None
    search: Options = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its folder."""
        number = self.seed if self.trial is None else f"trial{self.trial}"
        return f"{self.system.folder_name}.{number}"

    @property
    def base(self) -> str | None:
        """The name of the run whose trained model this one uses."""
        if self.system.runs_of is None:
            return None
        return Run(System(self.system.runs_of, ""), self.seed, None, {}).name

    def with_options(self, options: Options) -> "Run":
        """This run with further options of fairseq-train."""
        train = _resolved({**self.train, **options}, self.updates)
        return replace(self, train=train)

    def with_search(self, options: Options) -> "Run":
        """This run with further options of fairseq-generate."""
        return replace(self, search=options)

    @property
    def searches(self) -> tuple[Options, ...]:
        """The search options to choose from; a trial has no choice."""
        return self.system.searches if self.trial is None else ()

    @property
    def settings(self) -> dict[str, Any]:
        """All that the results depend on; written to a file to notice changes."""
        if self.system.runs_of is not None:
            return {"runs_of": self.system.runs_of, **self._search_settings}
        return {
            "updates": self.updates,
            "seed": self.seed,
            "average": _given(asdict(self.system.average)),
            "train": _given(self.train),
            **self._search_settings,
        }

    @property
    def _search_settings(self) -> dict[str, Any]:
        choice = {"searches": list(self.searches)} if self.searches else {}
        return {"generate": _given(replace(self, search={}).generate), **choice}

    @property
    def generate(self) -> Options:
        """Options of fairseq-generate; the task is that of the training."""
        removal: Options = {"remove-bpe": True}
        if {"post-process", "remove-bpe"} & set(self.system.generate):
            removal = {}
        task = {"task": self.train.get("task")}
        return {**task, **removal, **self.system.generate, **self.search}


def all_runs(experiment: Experiment) -> list[Run]:
    """The runs of all systems: trials, trainings, and runs that use other trainings."""
    runs = []
    for system in experiment.systems.values():
        trained = system if system.runs_of is None else experiment.systems[system.runs_of]
        updates = _limited(trained.updates, experiment)
        if system.trials:
            assert system.updates is not None
            share = max(1, round(experiment.tuning.updates * system.updates))
            tried = _limited(share, experiment)
            for number, options in enumerate(system.trials, start=1):
                run = Run(system, experiment.tuning.seed, tried, system.train, number)
                runs.append(run.with_options(options))
        for seed in trained.seeds:
            runs.append(Run(system, seed, updates, trained.train).with_options({}))
    return runs


def best_trial(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The result of the trial with the highest BLEU on valid, of equal ones the lowest loss."""

    def key(result: dict[str, Any]) -> tuple[float, float]:
        loss = result["valid_loss"]
        return -result["splits"]["valid"]["bleu"], float("inf") if loss is None else loss

    return min(results, key=key)


def best_search(tried: Iterable[dict[str, Any]]) -> Options:
    """The search options with the highest BLEU, of equal ones the first; {} if none were tried."""
    return max(tried, key=lambda each: each["bleu"], default={"options": {}})["options"]


def changed_settings(
    earlier: dict[str, Any], now: dict[str, Any], place: str = ""
) -> list[tuple[str, Any, Any]]:
    """The settings that differ: their names and both values ("unset" if there is none)."""
    found = []
    for name in [*now, *(name for name in earlier if name not in now)]:
        before, after = earlier.get(name, "unset"), now.get(name, "unset")
        if isinstance(before, dict) and isinstance(after, dict):
            found += changed_settings(before, after, f"{name}.")
        elif before != after:
            found.append((f"{place}{name}", before, after))
    return found


def arguments(options: Options) -> list[str]:
    """Options as arguments of a command line."""
    words = []
    for name, value in _given(options).items():
        if value is True:
            words.append(f"--{name}")
        elif str(value).startswith("-"):
            words.append(f"--{name}={value}")
        else:
            words += [f"--{name}", str(value)]
    return words


def _given(options: Options) -> Options:
    return {name: value for name, value in options.items() if not (value is None or value is False)}


def _resolved(options: Options, updates: int | None) -> Options:
    return {
        name: value.replace("{updates}", str(updates)) if isinstance(value, str) else value
        for name, value in options.items()
    }


def _limited(updates: int | None, experiment: Experiment) -> int | None:
    limits = [number for number in (updates, experiment.limit_updates) if number is not None]
    return min(limits) if limits else None
