"""Read an experiment file, with errors that name their places, or make a smoke run of it."""

import os
import random
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..common.data_files import read_yaml
from ..common.errors import UserError
from .faults import faults_of
from .file import PATHS, DataSettings, Experiment, Smoke, System, Tuning
from .options import Options
from .runs import final_seeds
from .trials import FIRST_TRIALS, Adaptive, Space
from .values import MAX_VARIANTS, Chosen, shown

# What a system takes from the experiment if it does not have its own.
INHERITED = ("average", "seeds", "searches")
# The smoke run: updates and merges at most, the sizes of its splits, and the words in them.
SMOKE_UPDATES = 2
SMOKE_MERGES = 20
SMOKE_SIZES = {"train": 60, "valid": 6, "test": 6}
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        UserError: if the file cannot be read, or something in it is wrong.
    """
    content = read_yaml(path)
    try:
        experiment = TypeAdapter(Experiment).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {_sentence(error)}.") from error
    experiment = _completed(experiment, content["systems"], path)
    for fault in faults_of(experiment, content["systems"]):
        raise UserError(f"{path}: {fault}.")
    return experiment


def schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, for editors."""
    found = TypeAdapter(Experiment).json_schema()
    for section, described in ((Experiment, found), (System, found["$defs"]["System"])):
        for key in fields(section):
            if key.default_factory is MISSING or key.name not in described["properties"]:
                continue
            # pydantic omits the defaults that functions make.
            if is_dataclass(made := key.default_factory()):
                described["properties"][key.name]["default"] = asdict(made)  # type: ignore[arg-type]
    return found


def _sentence(errors: ValidationError) -> str:
    """The first error: where it is, what was given, and what is allowed."""
    error = errors.errors(include_url=False)[0]
    steps = (f"[{step + 1}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    place = "".join(steps).removeprefix(".")
    if error["type"] == "sentence":
        return f"{place or 'it'}{error['msg']}"
    if error["type"] == "missing":
        return f"{place} is missing"
    given = shown(error["input"])
    return f"{place or 'its content'} is {given}: it must be {error['msg']}"


def _completed(experiment: Experiment, given: dict[Any, dict[str, Any]], path: Path) -> Experiment:
    """The experiment with complete systems: each has what it takes from the experiment.

    Args:
        experiment: the content of the file.
        given: the section systems as it is in the file.
        path: the file, which the paths in it are relative to.
    """
    systems = {}
    # YAML reads some names as numbers.
    given = {str(name): keys for name, keys in given.items()}
    for name, own in experiment.systems.items():
        keys = given[name]
        systems[name] = replace(
            own,
            name=name,
            title=own.title or name,
            train={**experiment.train, **own.train},
            generate={**experiment.generate, **own.generate},
            smoke=Smoke(
                {**experiment.smoke.train, **own.smoke.train},
                {**experiment.smoke.generate, **own.smoke.generate},
            ),
            **_tried(own, keys.get("trials"), experiment.tuning),
            **{key: getattr(experiment, key) for key in INHERITED if key not in keys},
        )
    for name, own in systems.items():
        used = [systems.get(str(other)) for other in (own.runs_of, *own.ensemble)]
        others = [other for other in used if other is not None]
        if any(each.trains_with_models for each in (own, *others)):
            own = systems[name] = replace(own, needs_models=True)
        if own.reverse or any(other.reverse for other in others):
            kept = own.searches if "searches" in given[name] else ()
            systems[name] = replace(own, reverse=True, searches=kept)
    data = experiment.data
    folders = {
        name: path.parent / os.path.expanduser(folder)
        for name in PATHS
        if (folder := getattr(data, name)) is not None
    }
    return replace(
        experiment,
        title=experiment.title or path.stem,
        data=replace(data, **folders),
        systems=systems,
    )


def _tried(own: System, given: Any, tuning: Tuning) -> dict[str, Any]:
    """The trials that are known before the first run, and what chooses the others.

    Args:
        own: a system as it is in the file.
        given: its trials as they are there.
        tuning: how they are tried.
    """
    number, seed = min(tuning.sample, MAX_VARIANTS), tuning.seed
    if not number or not isinstance(given, dict):
        return {"trials": _sample(own.trials, tuning)}
    space = Space.of(given)
    if space.size <= number:
        return {"trials": space.grid()}
    if tuning.sampler == "random":
        drawn = space.draws(number, seed) if space.has_ranges else _sample(own.trials, tuning)
        return {"trials": drawn}
    adaptive = Adaptive(space, number, seed, tuning.parallel)
    return {"trials": space.draws(min(number, FIRST_TRIALS), seed), "adaptive": adaptive}


def _sample(trials: tuple[Options, ...], tuning: Tuning) -> tuple[Options, ...]:
    """The listed trials that are trained, in the order of the file."""
    if not 0 < tuning.sample < len(trials):
        return trials
    chosen = random.Random(tuning.seed).sample(range(len(trials)), tuning.sample)
    return tuple(trials[number] for number in sorted(chosen))


def smoke_run(experiment: Experiment, folder: Path) -> Experiment:
    """An experiment that quickly tries each system of another one, on one data set.

    Args:
        experiment: the other one.
        folder: an empty folder for the generated text.
    """
    data, systems = experiment.data, {}
    write_text(folder, data.languages)
    for name, system in experiment.systems.items():
        systems[name] = replace(
            system,
            train={**system.train, **system.smoke.train},
            generate={**system.generate, **system.smoke.generate},
            seeds=system.seeds[:1],
            ensemble={each: experiment.systems[each].seeds[:1] for each in system.ensemble},
        )
    return replace(
        experiment,
        title=f"{experiment.title} (smoke run: generated text, tiny models)",
        data=DataSettings(
            source=data.source,
            target=data.target,
            text=folder,
            monolingual=folder / f"train.{data.languages[1]}" if data.monolingual else None,
            bpe_merges=min(data.bpe_merges, SMOKE_MERGES),
            joined_dictionary=data.joined_dictionary,
            generated=True,
        ),
        tuning=replace(experiment.tuning, sets=()),
        systems={name: _of_first_runs(system, systems) for name, system in systems.items()},
        limit_updates=min(experiment.limit_updates or SMOKE_UPDATES, SMOKE_UPDATES),
    )


def _of_first_runs(system: System, systems: dict[str, System]) -> System:
    """A system that trains on the translations of the first run of each of its teachers.

    Args:
        system: the system.
        systems: all systems, with the seeds that the runs have.
    """
    train_on = system.train_on

    def first(chosen: Chosen) -> Chosen:
        return {name: final_seeds(systems[name], systems)[:1] for name in chosen}

    translations, back = first(train_on.translations), first(train_on.back_translations)
    changed = replace(train_on, translations=translations, back_translations=back)
    return replace(system, train_on=changed)


def write_text(folder: Path, languages: tuple[str, str]) -> None:
    """Write parallel text: the target is the reversed source, in other words."""
    numbers = random.Random(1)
    for split, size in SMOKE_SIZES.items():
        sources = [numbers.sample(WORDS, numbers.randint(2, 7)) for _ in range(size)]
        targets = [[f"{word}th" for word in reversed(words)] for words in sources]
        for language, lines in zip(languages, (sources, targets)):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8", newline="\n")
