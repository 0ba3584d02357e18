"""What several values of an experiment file say together must be possible."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .file import FOLDERS, PATHS, PLACE_OF_SET, DataSettings, Experiment, System, Tuning
from .options import IN_BRACES, NOT_FOR_TEXT, OF_TRANSLATE, UPDATES, given
from .runs import final_seeds, round_sizes
from .trials import Space
from .values import MAX_RUNS, MAX_VARIANTS

# A system that uses the trained models of another one.
REUSING_KEYS = ("title", "runs_of", "ensemble", "generate", "searches")
# They have scores, which systems that translate to the source language do not have.
SCORED_KEYS = ("trials", "searches")


def faults_of(experiment: Experiment, given: dict[Any, dict[str, Any]]) -> Iterator[str]:
    """What is wrong with several values of an experiment, as sentences without a full stop.

    Args:
        experiment: the experiment, whose systems have what they take from it.
        given: the section systems as it is in the file.
    """
    systems, data = experiment.systems, experiment.data
    for system, keys in zip(systems.values(), given.values()):
        if system.runs_of is None and not system.ensemble:
            yield from _faults_of_updates(system)
            yield from _faults_of_checkpoints(system)
            yield from _faults_of_trials(system, keys.get("trials"), experiment.tuning)
            if not system.seeds and not system.trials:
                yield f"{system.place} has no seeds and no trials, so nothing would be trained"
        else:
            for key in keys:
                if key not in REUSING_KEYS:
                    which = "runs_of" if system.runs_of is not None else "ensemble"
                    yield (
                        f"{system.place}, a system with {which}, has an unknown key '{key}'; "
                        f"allowed: {', '.join(REUSING_KEYS)}"
                    )
    for system in systems.values():
        if system.runs_of is not None:
            yield from _faults_of_reuse(system, systems)
        if system.ensemble:
            yield from _faults_of_ensemble(system, systems)
        if system.continues is not None:
            yield from _faults_of_start(system, systems)
        yield from _faults_of_pairs(system, experiment)
        for key in SCORED_KEYS:
            if system.reverse and getattr(system, key):
                yield (
                    f"{system.place} has {key}, but translates to the source language, which has "
                    "no scores: omit these options"
                )
    runs = max(1, len(data.sets)) * sum(
        len(system.seeds) * max(1, len(system.searches))
        + sum(round_sizes(system, experiment.tuning))
        for system in systems.values()
    )
    if runs > MAX_RUNS:
        yield f"it has {runs:,} runs and searches of runs: at most {MAX_RUNS:,} are allowed"
    scored = [name for name, each in systems.items() if not each.reverse]
    if experiment.baseline is not None and experiment.baseline not in scored:
        what = "not a system" if experiment.baseline not in systems else "a system without scores"
        yield f"baseline is '{experiment.baseline}', which is {what}; {_choose(scored)}"
    yield from faults_of_sets(data, experiment.tuning)
    if data.needs_text and None in (data.source, data.target):
        yield "data has no source or no target language"
    if data.prepared is not None:
        yield from _faults_of_prepared(data)
    yield from faults_of_folders(data, systems)


def _faults_of_updates(system: System) -> Iterator[str]:
    """A system needs a number of updates if something depends on it."""
    place, train = system.place, system.train
    if train.get("arch") is None and not all("arch" in t for t in system.trials or [{}]):
        yield f"{place}.train has no arch, the name of an architecture"
    for options in (train, *system.trials):
        for name, value in options.items():
            for found in IN_BRACES.findall(value if isinstance(value, str) else ""):
                if not UPDATES.fullmatch(found):
                    yield (
                        f"{place} has '{found}' in its training option {name}: only '{{updates}}' "
                        "and a share of them, such as '{5% of updates}', are replaced"
                    )
    if system.updates is not None:
        return
    if system.trials:
        yield f"{place} has trials but no updates: trials train for a share of them"
    if system.average.every is not None:
        yield f"{place} has no updates, but average.every is a share of them"
    for name, value in train.items():
        if UPDATES.search(str(value)):
            yield f"{place} has no updates, but its training option {name} is '{value}'"
    if not train.get("max-epoch"):
        yield f"{place} has neither updates nor the training option max-epoch"


def _faults_of_trials(system: System, given: Any, tuning: Tuning) -> Iterator[str]:
    """The number of trials must be known; ``given`` is those of the file."""
    place, needed = f"{system.place}.trials", None
    if isinstance(given, dict) and given and Space.of(given).has_ranges:
        needed = f"{place} has a range"
    elif given and tuning.sampler == "tpe":
        needed = "tuning.sampler is 'tpe'"
        if not isinstance(given, dict):
            yield f"{needed}, but {place} is a list: give a list or a range for each option"
    if needed is not None and not 0 < tuning.sample <= MAX_VARIANTS:
        yield (
            f"{needed}, but tuning.sample, the number of trials, is {tuning.sample:,}: it must be "
            f"from 1 to {MAX_VARIANTS:,}"
        )


def _faults_of_checkpoints(system: System) -> Iterator[str]:
    """The checkpoints of ``average`` must be saved, and only where it says so."""
    place, train, average = system.place, system.train, system.average
    saves = train.get("save-interval-updates")
    if average.every is not None and (average.checkpoints - 1) * average.every >= 1:
        yield (
            f"{place} has an average of {average.checkpoints} checkpoints, one every "
            f"{average.every:g} of the updates, but there are fewer: choose fewer, or an "
            f"average.every below {1 / (average.checkpoints - 1):.3g}"
        )
    if saves and average.every is not None and average.checkpoints > 1:
        yield (
            f"{place} has average.every, which saves checkpoints, and the training option "
            "save-interval-updates: omit one of them"
        )
    at_epochs = train.get("validate-interval") in (None, False, 1, "1")
    if average.best and not saves and train.get("validate-interval-updates") and not at_epochs:
        yield (
            f"{place} has average 'best', but fairseq saves no checkpoint where it validates: add "
            "the training option save-interval-updates, with the number of "
            "validate-interval-updates"
        )


def _faults_of_reuse(system: System, systems: dict[str, System]) -> Iterator[str]:
    """``runs_of`` must name a system that is trained."""
    found = f"{system.place}.runs_of is '{system.runs_of}', which"
    trained = [name for name, each in systems.items() if each.runs_of is None and not each.ensemble]
    if system.runs_of not in systems:
        yield f"{found} is not a system; {_choose(trained)}"
    if system.runs_of not in trained:
        yield f"{found} uses the runs of others; {_choose(trained)}"
    elif not systems[system.runs_of].seeds:
        yield f"{found} has no seeds, and so no final runs"


def _faults_of_ensemble(system: System, systems: dict[str, System]) -> Iterator[str]:
    """``ensemble`` must name runs of systems that are trained."""
    if system.runs_of is not None:
        yield f"{system.place} has both runs_of and ensemble: omit one of them"
    if len({systems[name].reverse for name in system.ensemble if name in systems}) > 1:
        yield f"{system.place}.ensemble has systems of both directions"
    trained = [each.name for each in systems.values() if each.runs_of is None and not each.ensemble]
    place = f"{system.place}.ensemble"
    yield from _faults_of_runs(place, system.ensemble, trained, "that is trained", systems)


def faults_of_sets(data: DataSettings, tuning: Tuning) -> Iterator[str]:
    """Several data sets must have different folders."""
    folders = {key: str(folder) for key in PATHS if (folder := getattr(data, key)) is not None}
    for key, folder in folders.items():
        if (PLACE_OF_SET in folder) != bool(data.sets):
            has = "sets, but" if data.sets else "no sets, but"
            what = f"no '{PLACE_OF_SET}'" if data.sets else f"'{PLACE_OF_SET}'"
            yield f"data has {has} {what} in {key}, where the name of a data set stands"
    if data.sets and not folders:
        yield f"data has sets, but no {' or '.join(FOLDERS)} with '{PLACE_OF_SET}'"
    if data.sets and data.download is not None:
        yield "data has both sets and download: omit one of them"
    for name, count in Counter(data.sets).items():
        if count > 1:
            yield f"data.sets has '{name}' {count} times"
    for name in tuning.sets:
        if name not in data.sets:
            choice = _choose(data.sets) if data.sets else "there are no data.sets"
            yield f"tuning.sets has '{name}', which is not a data set; {choice}"


def _faults_of_start(system: System, systems: dict[str, System]) -> Iterator[str]:
    """``continues`` must name a system above that is trained."""
    names = list(systems)
    above = [systems[name] for name in names[: names.index(system.name)]]
    trained = [
        each.name for each in above if each.runs_of is None and not each.ensemble and each.seeds
    ]
    if system.continues not in trained:
        yield (
            f"{system.place}.continues is '{system.continues}', which is not a system above it "
            f"that is trained; {_choose(trained) if trained else 'put it below one'}"
        )
    if system.train.get("finetune-from-model") is not None:
        yield (
            f"{system.place} has both continues and the training option finetune-from-model: "
            "omit one of them"
        )


def _faults_of_pairs(system: System, experiment: Experiment) -> Iterator[str]:
    """``train_on`` must name runs of systems above."""
    systems, train_on, place = experiment.systems, system.train_on, f"{system.place}.train_on"
    if not (train_on.text or train_on.translations or train_on.back_translations):
        yield f"{place} has neither text nor translations"
    names = list(systems)
    above = names[: names.index(system.name)]
    yield from _faults_of_runs(
        f"{place}.translations", train_on.translations, above, "above it", systems
    )
    if train_on.tag and not train_on.back_translations:
        yield f"{place} has tag, but no back_translations to put it before"
    if not train_on.back_translations:
        return
    if experiment.data.monolingual is None:
        yield f"{place} has back_translations, but data has no monolingual text to translate"
    reverse = [name for name in above if systems[name].reverse]
    which = "above it that has reverse"
    yield from _faults_of_runs(
        f"{place}.back_translations", train_on.back_translations, reverse, which, systems
    )
    for name in filter(reverse.__contains__, train_on.back_translations):
        chosen = given(systems[name].generate)
        for option in sorted(chosen.keys() - {*OF_TRANSLATE, *NOT_FOR_TEXT}):
            yield (
                f"{systems[name].place} has the option {option}, but translates text for {place} "
                "with `convs2s translate`, which does not have it: remove it"
            )


def _faults_of_runs(
    place: str,
    chosen: dict[str, tuple[int, ...]],
    allowed: list[str],
    which: str,
    systems: dict[str, System],
) -> Iterator[str]:
    """Systems and seeds must name final runs.

    Args:
        place: place of the systems and seeds in the file.
        chosen: name of a system -> seeds.
        allowed: the names that are allowed.
        which: what these systems have in common, as in "not a system above it".
        systems: all systems.
    """
    for name, seeds in chosen.items():
        found = f"{place} has '{name}', which"
        if name not in allowed:
            choice = _choose(allowed) if allowed else "there is none"
            yield f"{found} is not a system {which}; {choice}"
            continue
        if not seeds:
            yield f"{found} has no seeds"
        known = final_seeds(systems[name], systems)
        for seed in seeds:
            if seed not in known:
                has = " and ".join(map(str, known)) or "none"
                yield f"{found} has no run with the seed {seed}; its seeds: {has}"


def _faults_of_prepared(data: DataSettings) -> Iterator[str]:
    """Prepared data must not have settings of text: ``convs2s prepare`` has made all choices."""
    for name in ("text", "bin", "download", "bpe_merges", "joined_dictionary"):
        if getattr(data, name):
            yield f"data has both prepared and {name}: omit one of them"


def faults_of_folders(data: DataSettings, systems: dict[str, System]) -> Iterator[str]:
    """Systems must be possible with binarized or prepared data, also of the command line."""
    back_translates = any(each.train_on.back_translations for each in systems.values())
    if data.bin is not None and data.monolingual is not None and back_translates:
        yield (
            "data has both monolingual and bin, which does not say how text becomes tokens: give "
            "text or prepared"
        )
    for system in systems.values():
        for options in (system.generate, *system.searches) if data.prepared is not None else ():
            for name in sorted({"post-process", "remove-bpe"} & set(options)):
                yield (
                    f"{system.place} has the option {name}, but data.prepared knows how its "
                    "sub-words are joined: remove it"
                )


def _choose(names: Iterable[str]) -> str:
    return f"choose {', '.join(names)}"
