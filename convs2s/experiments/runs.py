"""The runs of an experiment and the options of their programs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .file import Experiment, System, Tuning
from .options import Options, given, with_updates
from .records import as_json
from .values import folder_name


@dataclass(frozen=True)
class Run:
    """A training run of a system and its translations, or only the translations.

    Attributes:
        system: the system.
        seed: seed of the training run.
        updates: number of updates; None if a training option ends it.
        options: options of fairseq-train, in which UPDATES represent numbers of updates. If the
            system has trials, those of the best one are missing until the trials are done; see
            ``with_options``.
        data_set: name of its data set; "" for the only one.
        trial: number of the trial, counted from 1; None for a final run.
        tried: the options of the trial; those of later rounds, and those that are chosen from the
            results of others, are missing until the trials before are done.
        share: share of the updates of the system that a trial has.
        limit: maximum number of updates; None for no maximum.
        rank: the place of a trial among those of the round before, counted from 1; None for other
            runs.
        awaits: names of the trials, or of the runs with the trained models, that must be done
            before this one.
        search: options of fairseq-generate that were chosen on the validation set.
        trained_by: name of the trial that has the same training run; None to train.
        start: name of the run whose model training begins with; None for random weights.
        models: names of the runs whose trained models this one uses; none if it trains.
        translations: names of the runs whose translations of the training text it trains on ->
            whether they translate to the source language.
        back_translations: names of the runs on whose translations of the monolingual text it
            trains.
        translates_text, translates_monolingual: whether others train on its translations of the
            training text, or of the monolingual text.
    """

    system: System
    seed: int
    updates: int | None
    options: Options
    data_set: str = ""
    trial: int | None = None
    tried: Options = field(default_factory=dict)
    share: float = 1
    limit: int | None = None
    rank: int | None = None
    awaits: tuple[str, ...] = ()
    search: Options = field(default_factory=dict)
    trained_by: str | None = None
    start: str | None = None
    models: tuple[str, ...] = ()
    translations: dict[str, bool] = field(default_factory=dict)
    back_translations: tuple[str, ...] = ()
    translates_text: bool = False
    translates_monolingual: bool = False

    @property
    def teachers(self) -> tuple[str, ...]:
        """The names of all runs on whose translations it trains."""
        return (*self.translations, *self.back_translations)

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all runs whose models or translations it uses, each once."""
        start = () if self.start is None else (self.start,)
        return tuple(dict.fromkeys((*self.models, *self.teachers, *start)))

    @property
    def name(self) -> str:
        """The name of its folder, with that of the data set in front."""
        number = self.seed if self.trial is None else f"trial{self.trial}"
        return _name(self.system.name, str(number), self.data_set)

    @property
    def is_adaptive(self) -> bool:
        """Whether it is a trial whose options are chosen from the results of others."""
        return self.trial is not None and self.rank is None and bool(self.awaits)

    def examples(self) -> list["Run"]:
        """This run, or if it is adaptive runs with the options that may be chosen."""
        adaptive = self.system.adaptive
        if adaptive is None or not self.is_adaptive:
            return [self]
        return [
            replace(self, awaits=(), tried=options).with_options(options)
            for options in adaptive.space.examples()
        ]

    def name_of_trial(self, number: int) -> str:
        """The name of a trial of the same system on the same data."""
        return _name(self.system.name, f"trial{number}", self.data_set)

    def with_options(self, options: Options) -> "Run":
        """This run with further options of fairseq-train, and maybe its number of ``updates``."""
        updates, given = self.updates, options.get("updates")
        if isinstance(given, int):
            updates = _limited(max(1, round(self.share * given)), self.limit)
        others = {name: value for name, value in options.items() if name != "updates"}
        return replace(self, options=self.options | others, updates=updates)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the runs that must be done before this one, each once."""
        start = () if self.start is None else (self.start,)
        return tuple(dict.fromkeys((*self.awaits, *self.teachers, *start)))

    @property
    def workers(self) -> int:
        """The number of processes that train, on all machines; 1 if the run does not train."""
        return self.system.gpus * self.system.nodes

    @property
    def train(self) -> Options:
        """Options of fairseq-train, with the number of updates."""
        return {
            name: value if self.updates is None else with_updates(value, self.updates)
            for name, value in self.options.items()
        }

    def with_search(self, options: Options) -> "Run":
        """This run with further options of fairseq-generate."""
        return replace(self, search=options)

    @property
    def searches(self) -> tuple[Options, ...]:
        """The search options to choose from; a trial has no choice."""
        return self.system.searches if self.trial is None else ()

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the results depend on; written to a file to notice changes."""
        runs_of, ensemble = self.system.runs_of, as_json(self.system.ensemble)
        trained = self.training_settings if runs_of is None else {"runs_of": runs_of}
        trained = {"ensemble": ensemble} if ensemble else trained
        choice = {"searches": list(self.searches)} if self.searches else {}
        adaptive = None if self.trial is None else self.system.adaptive
        tried = {} if adaptive is None else {"trials": adaptive.space.settings}
        return {
            **tried,
            **trained,
            "generate": given(replace(self, search={}).generate),
            **choice,
        }

    @property
    def training_settings(self) -> dict[str, Any]:
        """Everything that the trained model depends on."""
        special: dict[str, Any] = {} if self.start is None else {"start": self.start}
        if self.teachers:
            special["train_on"] = {
                "text": self.system.train_on.text,
                "translations": list(self.translations),
            }
        if self.back_translations:
            special["train_on"]["back_translations"] = list(self.back_translations)
            special["train_on"]["tag"] = self.system.train_on.tag
        if self.system.reverse:
            special["reverse"] = True
        if self.workers > 1:
            special |= {"gpus": self.system.gpus, "nodes": self.system.nodes}
        return {
            **special,
            "updates": self.updates,
            "seed": self.seed,
            "average": given(asdict(self.system.average)),
            "train": given(self.train),
        }

    @property
    def generate(self) -> Options:
        """Options of fairseq-generate; the task is that of the training run."""
        removal: Options = {"remove-bpe": True}
        if {"post-process", "remove-bpe"} & set(self.system.generate):
            removal = {}
        task = {"task": self.train.get("task")}
        return {**task, **removal, **self.system.generate, **self.search}


def all_runs(experiment: Experiment) -> list[Run]:
    """The runs of all systems: trials, training runs, and runs that use the models of others."""
    tried_on = experiment.tuning.sets or experiment.data.sets or ("",)
    runs = []
    for data_set in experiment.data.sets or ("",):
        for system in experiment.systems.values():
            rounds = _rounds(system, experiment, tried_on)
            for trial in (trial for trials in rounds for trial in trials):
                if trial.data_set == data_set:
                    runs.append(trial)
            last = tuple(trial.name for trials in rounds[-1:] for trial in trials)
            runs += _final_runs(system, experiment, data_set, last)
    of_text = {name for run in runs for name in run.translations}
    of_monolingual = {name for run in runs for name in run.back_translations}
    return [
        replace(
            run,
            translates_text=run.name in of_text,
            translates_monolingual=run.name in of_monolingual,
        )
        for run in runs
    ]


def final_seeds(system: System, systems: Mapping[str, System]) -> tuple[int, ...]:
    """The seeds of the final runs of a system; an ensemble has that of its first model."""
    if system.ensemble:
        return next(iter(system.ensemble.values()))[:1]
    return system.seeds if system.runs_of is None else systems[system.runs_of].seeds


def needs(run: Run, other: Run) -> bool:
    """Whether ``run`` cannot start before ``other`` is done."""
    return other.name in run.needed


def _final_runs(
    system: System, experiment: Experiment, data_set: str, awaits: tuple[str, ...]
) -> Iterator[Run]:
    """The runs of a system on one of the data sets, one for each seed."""
    systems, limit = experiment.systems, experiment.limit_updates
    if system.ensemble:
        models = _names(system.ensemble, data_set)
        train = systems[next(iter(system.ensemble))].train
        for seed in final_seeds(system, systems):
            yield Run(system, seed, None, train, data_set, awaits=models, models=models)
        return
    trained = system if system.runs_of is None else systems[system.runs_of]
    updates = _limited(trained.updates, limit)
    for seed in final_seeds(system, systems):
        run = Run(
            system,
            seed,
            updates,
            trained.train,
            data_set,
            limit=limit,
            awaits=awaits,
            start=_start(system, seed, experiment, data_set),
            translations=_translations(system, experiment, data_set),
            back_translations=_names(system.train_on.back_translations, data_set),
        )
        if system.runs_of is not None:
            models = (_name(system.runs_of, str(seed), data_set),)
            run = replace(run, awaits=models, models=models)
        yield run


def _rounds(system: System, experiment: Experiment, data_sets: Sequence[str]) -> list[list[Run]]:
    """The trials of a system, round after round, on all data sets of the tuning."""
    tuning, limit = experiment.tuning, experiment.limit_updates
    rounds: list[list[Run]] = []
    first = 1
    for share, number in zip(tuning.updates, round_sizes(system, tuning)):
        if not number:
            break
        assert system.updates is not None
        awaits = tuple(trial.name for trials in rounds[-1:] for trial in trials)
        trials = []
        for data_set in data_sets:
            run = Run(
                system,
                tuning.seed,
                _limited(max(1, round(share * system.updates)), limit),
                system.train,
                data_set,
                share=share,
                limit=limit,
                awaits=awaits,
                start=_start(system, tuning.seed, experiment, data_set),
                translations=_translations(system, experiment, data_set),
                back_translations=_names(system.train_on.back_translations, data_set),
            )
            for place in range(number):
                trial = replace(run, trial=first + place)
                if rounds:
                    trials.append(replace(trial, rank=place + 1))
                elif place < len(system.trials):
                    options = system.trials[place]
                    trials.append(replace(trial, tried=options).with_options(options))
                else:
                    assert system.adaptive is not None
                    known = system.adaptive.last_known(first + place)
                    names = tuple(
                        replace(run, data_set=each).name_of_trial(number)
                        for each in data_sets
                        for number in range(1, known + 1)
                    )
                    trials.append(replace(trial, awaits=names))
        rounds.append(trials)
        first += number
    return rounds


def round_sizes(system: System, tuning: Tuning) -> list[int]:
    """The number of trials of a system on a data set in each round of the tuning."""
    sizes = [len(system.trials) if system.adaptive is None else system.adaptive.number]
    for _ in tuning.updates[1:]:
        sizes.append(math.ceil(sizes[-1] * tuning.keep))
    return sizes


def _start(system: System, seed: int, experiment: Experiment, data_set: str) -> str | None:
    """The run that a training run continues: the one with the same seed, or with the first seed."""
    if system.continues is None:
        return None
    seeds = experiment.systems[system.continues].seeds
    return _name(system.continues, str(seed if seed in seeds else seeds[0]), data_set)


def _translations(system: System, experiment: Experiment, data_set: str) -> dict[str, bool]:
    """The ``translations`` of a run of a system."""
    return {
        run: experiment.systems[name].reverse
        for name, seeds in system.train_on.translations.items()
        for run in _names({name: seeds}, data_set)
    }


def _names(chosen: Mapping[str, Sequence[int]], data_set: str) -> tuple[str, ...]:
    """The names of final runs of systems, given with their seeds."""
    return tuple(
        _name(name, str(seed), data_set) for name, seeds in chosen.items() for seed in seeds
    )


def _name(system: str, number: str, data_set: str) -> str:
    """The name of a run."""
    name = f"{folder_name(system)}.{number}"
    return f"{data_set}/{name}" if data_set else name


def _limited(updates: int | None, limit: int | None) -> int | None:
    return min((number for number in (updates, limit) if number is not None), default=None)
