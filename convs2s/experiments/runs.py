"""The runs of an experiment and the options of their programs."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ..common.errors import UserError
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
        tried: the options of the trial; those of a finalist are missing until the trials before it
            are done.
        rank: the place of a finalist among these trials, counted from 1; None for other runs.
        awaits: names of the trials, or of the run with the trained model, that must be done before
            this one.
        search: options of fairseq-generate that were chosen on the validation set.
        trained_by: name of the trial that has the same training; None to train.
        start: name of the run whose model the training begins with; None for random weights.
    """

    system: System
    seed: int
    updates: int | None
    train: Options
    trial: int | None = None
    tried: Options = field(default_factory=dict)
    rank: int | None = None
    awaits: tuple[str, ...] = ()
    search: Options = field(default_factory=dict)
    trained_by: str | None = None
    start: str | None = None

    @property
    def name(self) -> str:
        """The name of its folder."""
        number = self.seed if self.trial is None else f"trial{self.trial}"
        return f"{self.system.folder_name}.{number}"

    @property
    def base(self) -> str | None:
        """The name of the run whose trained model this one uses."""
        return None if self.system.runs_of is None else _name(self.system.runs_of, self.seed)

    def with_options(self, options: Options) -> "Run":
        """This run with further options of fairseq-train."""
        train = {
            name: value.replace("{updates}", str(self.updates)) if isinstance(value, str) else value
            for name, value in (self.train | options).items()
        }
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
        runs_of = self.system.runs_of
        trained = self.training_settings if runs_of is None else {"runs_of": runs_of}
        choice = {"searches": list(self.searches)} if self.searches else {}
        return {**trained, "generate": _given(replace(self, search={}).generate), **choice}

    @property
    def training_settings(self) -> dict[str, Any]:
        """All that the trained model depends on."""
        start = {} if self.start is None else {"start": self.start}
        return {
            **start,
            "updates": self.updates,
            "seed": self.seed,
            "average": _given(asdict(self.system.average)),
            "train": _given(self.train),
        }

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
        trials = _trials(system, experiment)
        runs += trials
        awaits = tuple(trial.name for trial in trials)
        for seed in trained.seeds:
            start = _start(system, seed, experiment)
            run = Run(system, seed, updates, trained.train, awaits=awaits, start=start)
            run = run.with_options({})
            runs.append(run if run.base is None else replace(run, awaits=(run.base,)))
    return runs


def needs(run: Run, other: Run) -> bool:
    """``run`` cannot start before ``other`` is done."""
    return other.name in run.awaits or other.name == run.start


def _trials(system: System, experiment: Experiment) -> list[Run]:
    """The trials of a system, finalists included."""
    if not system.trials:
        return []
    assert system.updates is not None
    tuning = experiment.tuning
    start = _start(system, tuning.seed, experiment)
    make = partial(Run, system, tuning.seed, train=system.train, start=start)
    tried = _limited(max(1, round(tuning.updates * system.updates)), experiment)
    trials = [
        make(updates=tried, trial=number, tried=options).with_options(options)
        for number, options in enumerate(system.trials, start=1)
    ]
    awaits = tuple(trial.name for trial in trials)
    updates = _limited(system.updates, experiment)
    finalists = [
        make(updates=updates, trial=len(trials) + rank, rank=rank, awaits=awaits)
        for rank in range(1, min(tuning.finalists, len(trials)) + 1)
    ]
    return trials + finalists


def _start(system: System, seed: int, experiment: Experiment) -> str | None:
    """The run that a training continues: that with the same seed, or else with the first one."""
    if system.continues is None:
        return None
    seeds = experiment.systems[system.continues].seeds
    return _name(system.continues, seed if seed in seeds else seeds[0])


def _name(system: str, seed: int) -> str:
    """The name of a final run of a system."""
    return Run(System(system, ""), seed, None, {}).name


def ranked_trials(results: Iterable[dict[str, Any]], tried: int) -> list[dict[str, Any]]:
    """The results of the finalists, or else of all trials, best first.

    They are ordered by BLEU on valid, and those with equal BLEU by their loss. Those that diverged
    are left out.

    Args:
        results: the results.
        tried: number of trials; finalists have higher numbers.
    """

    def key(result: dict[str, Any]) -> tuple[float, float]:
        loss = result["valid_loss"]
        return -result["splits"]["valid"]["bleu"], float("inf") if loss is None else loss

    results = list(results)
    finalists = [result for result in results if result["trial"] > tried]
    return sorted((each for each in finalists or results if not each.get("diverged")), key=key)


def has_options(train: Options, tried: Options) -> bool:
    """The options of a training are those of a trial. Values with "{updates}" are not compared."""
    return all(
        train.get(name) == (None if value is False else value) or "{updates}" in str(value)
        for name, value in tried.items()
    )


def best_search(tried: Iterable[dict[str, Any]]) -> Options:
    """The search options with the highest BLEU, of equal ones the first; {} if none were tried."""
    return max(tried, key=lambda each: each["bleu"], default={"options": {}})["options"]


def check_unchanged(earlier: dict[str, Any], now: dict[str, Any], made: str, advice: str) -> None:
    """Refuse settings that differ from those of an earlier start.

    Args:
        earlier, now: both settings.
        made: what was made with them, up to the name of a setting, for the error.
        advice: what to do.
    Raises:
        UserError: naming the first setting that differs and both values ("unset" if there is none).
    """
    for name in [*now, *earlier]:
        before, after = earlier.get(name, "unset"), now.get(name, "unset")
        if isinstance(before, dict) and isinstance(after, dict):
            check_unchanged(before, after, f"{made}{name}.", advice)
        elif before != after:
            raise UserError(f"{made}{name} {before}, but now it is {after}: {advice}.")


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


def _limited(updates: int | None, experiment: Experiment) -> int | None:
    limits = (updates, experiment.limit_updates)
    return min((number for number in limits if number is not None), default=None)
