"""Read an experiment file; every error names its place in the file."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import TypeAdapter, ValidationError

from ..common.errors import UserError
from ..common.text_files import read_text
from .file import DataSettings, Experiment, Smoke, System, shown

# A system that uses the trained models of another one.
REUSING_KEYS = ("title", "runs_of", "generate", "searches")
# What a system takes from the experiment if it does not have it.
INHERITED = ("average", "seeds", "searches")


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        UserError: if the file cannot be read, or something in it is wrong.
    """
    text = read_text(str(path))
    try:
        content = yaml.load(text, Loader=_Loader)
    except (RecursionError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    try:
        experiment = TypeAdapter(Experiment).validate_python(content)
    except ValidationError as error:
        raise UserError(f"{path}: {_sentence(error)}.") from error
    return _Checks(path).resolved(experiment, content["systems"])


def schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, for editors."""
    return TypeAdapter(Experiment).json_schema()


class _Loader(yaml.SafeLoader):
    """A loader of plain data that refuses a key that occurs twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key '{key_node.value}' occurs twice", key_node.start_mark
                    )
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


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


class _Checks:
    """Checks what depends on several values.

    Args:
        path: the file, for errors and for relative paths.
    """

    def __init__(self, path: Path):
        self.path = path

    def fail(self, message: str) -> NoReturn:
        raise UserError(f"{self.path}: {message}.")

    def resolved(self, experiment: Experiment, given: dict[Any, dict[str, Any]]) -> Experiment:
        """The experiment with complete systems: each has what it takes from the experiment.

        Args:
            experiment: the content of the file.
            given: the section systems as it is in the file.
        """
        systems = {
            name: self.system(name, system, keys, experiment)
            for (name, system), keys in zip(experiment.systems.items(), given.values())
        }
        for system in systems.values():
            if system.runs_of is not None:
                self.check_reuse(system, systems)
            if system.continues is not None:
                self.check_start(system, systems)
        if experiment.baseline is not None and experiment.baseline not in systems:
            self.fail(
                f"baseline is '{experiment.baseline}', which is no system; {_choose(systems)}"
            )
        return replace(
            experiment,
            title=experiment.title or self.path.stem,
            data=self.data(experiment.data),
            systems=systems,
        )

    def data(self, data: DataSettings) -> DataSettings:
        """The data with the paths of its folders."""
        if data.bin is None and None in (data.source, data.target):
            self.fail("data has no source or no target language")
        text, binarized = (
            path and self.path.parent / path.expanduser() for path in (data.text, data.bin)
        )
        return replace(data, text=text, bin=binarized)

    def system(self, name: str, own: System, given: dict[str, Any], outer: Experiment) -> System:
        """A system with its name and with the settings of the experiment."""
        place = f"systems.{name}"
        if own.runs_of is not None:
            for key in given:
                if key not in REUSING_KEYS:
                    self.fail(
                        f"{place}, a system with runs_of, has an unknown key '{key}'; allowed: "
                        f"{', '.join(REUSING_KEYS)}"
                    )
        system = replace(
            own,
            name=name,
            title=own.title or name,
            train={**outer.train, **own.train},
            generate={**outer.generate, **own.generate},
            smoke=Smoke(
                {**outer.smoke.train, **own.smoke.train},
                {**outer.smoke.generate, **own.smoke.generate},
            ),
            **{key: getattr(outer, key) for key in INHERITED if key not in given},
        )
        if own.runs_of is None:
            self.check_updates(system, place)
            self.check_checkpoints(system, place)
            if not system.seeds and not system.trials:
                self.fail(f"{place} has no seeds and no trials, so that nothing would be trained")
        return system

    def check_updates(self, system: System, place: str) -> None:
        """A system needs a number of updates if something depends on it."""
        if system.train.get("arch") is None and not all("arch" in t for t in system.trials or [{}]):
            self.fail(f"{place}.train has no arch, the name of an architecture")
        if system.updates is not None:
            return
        if system.trials:
            self.fail(f"{place} has trials but no updates: trials train for a share of them")
        if system.average.every is not None:
            self.fail(f"{place} has no updates, but average.every is a share of them")
        for name, value in system.train.items():
            if "{updates}" in str(value):
                self.fail(f"{place} has no updates, but its training option {name} is '{value}'")
        if not system.train.get("max-epoch"):
            self.fail(f"{place} has neither updates nor the training option max-epoch")

    def check_checkpoints(self, system: System, place: str) -> None:
        """The checkpoints of ``average`` must be saved, and only where it says so."""
        train, average = system.train, system.average
        saves = train.get("save-interval-updates")
        if saves and average.every is not None and average.checkpoints > 1:
            self.fail(
                f"{place} has average.every, which saves checkpoints, and the training option "
                "save-interval-updates: leave one of them out"
            )
        at_epochs = train.get("validate-interval") in (None, False, 1, "1")
        if average.best and not saves and train.get("validate-interval-updates") and not at_epochs:
            self.fail(
                f"{place} has average 'best', but fairseq saves no checkpoint where it validates: "
                "add the training option save-interval-updates, with the number of "
                "validate-interval-updates"
            )

    def check_reuse(self, system: System, systems: dict[str, System]) -> None:
        """``runs_of`` must name a system that is trained."""
        place, other = f"systems.{system.name}.runs_of", system.runs_of
        trained = [key for key, system in systems.items() if system.runs_of is None]
        if other not in systems:
            self.fail(f"{place} is '{other}', which is no system; {_choose(trained)}")
        if other not in trained:
            self.fail(f"{place} is '{other}', which uses the runs of another; {_choose(trained)}")
        if not systems[other].seeds:
            self.fail(f"{place} is '{other}', which has no seeds, so that it has no final runs")

    def check_start(self, system: System, systems: dict[str, System]) -> None:
        """``continues`` must name a system above that is trained."""
        name, names = system.name, list(systems)
        above = names[: names.index(name)]
        trained = [key for key in above if systems[key].runs_of is None and systems[key].seeds]
        if system.continues not in trained:
            self.fail(
                f"systems.{name}.continues is '{system.continues}', which is no system above it "
                f"that is trained; {_choose(trained) if trained else 'put it below one'}"
            )
        if system.train.get("finetune-from-model") is not None:
            self.fail(
                f"systems.{name} has both continues and the training option finetune-from-model: "
                "leave one of them out"
            )


def _choose(names: Iterable[str]) -> str:
    return f"choose {', '.join(names)}"
