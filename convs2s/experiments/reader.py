"""Read an experiment file; every error names its place in the file."""

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from ..common.errors import UserError
from ..common.text_files import read_text
from .checks import Checks
from .file import Averaging, DataSettings, Experiment, Options, System, Tuning, folder_name

EXPERIMENT_KEYS = (
    *("title", "data", "train", "generate", "searches", "average", "seeds", "baseline", "tuning"),
    *("smoke", "systems"),
)
SYSTEM_KEYS = (
    *("title", "updates", "train", "generate", "searches", "average", "seeds", "trials", "runs_of"),
    *("continues", "smoke"),
)
# A system that uses the trained models of another one.
REUSING_KEYS = ("title", "runs_of", "generate", "searches")
SPLITS = ("train", "valid", "test")


def read_experiment(path: Path) -> Experiment:
    """Read an experiment file.

    Raises:
        UserError: if the file cannot be read, or something in it is wrong.
    """
    try:
        content = yaml.load(read_text(str(path)), Loader=_Loader)
    except (RecursionError, yaml.YAMLError) as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    return _Reader(path).experiment(content)


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


class _Reader(Checks):
    """Turns the content of a file into an Experiment."""

    def experiment(self, content: object) -> Experiment:
        top = self.section(content, "", EXPERIMENT_KEYS)
        for key in ("data", "systems"):
            if key not in top:
                self.fail(f"the section {key} is missing")
        self.outer_train = self.options(top.get("train"), "train", "fairseq-train")
        self.outer_generate = self.options(top.get("generate"), "generate", "fairseq-generate")
        self.outer_searches = self.variants(top.get("searches"), "searches", "fairseq-generate")
        self.outer_average = self.averaging(top.get("average", 1), "average")
        self.outer_seeds = self.seeds(top.get("seeds", [1]), "seeds")
        self.outer_smoke = self.smoke(top.get("smoke"), "smoke")
        systems = self.systems(top["systems"])
        baseline = self.text(top.get("baseline"), "baseline")
        if baseline is not None and baseline not in systems:
            self.fail(f"baseline is '{baseline}', which is no system; {_choose(systems)}")
        return Experiment(
            title=self.text(top.get("title"), "title") or self.path.stem,
            data=self.data(top["data"]),
            systems=systems,
            baseline=baseline,
            tuning=self.tuning(top.get("tuning")),
        )

    def data(self, content: object) -> DataSettings:
        """The section data."""
        data = self.section(content, "data", [field.name for field in fields(DataSettings)])
        given: dict[str, Any] = {}
        for key in ("source", "target", "download"):
            given[key] = self.text(data.get(key), f"data.{key}")
        for key in ("text", "bin"):
            value = self.text(data.get(key), f"data.{key}")
            given[key] = None if value is None else self.path.parent / Path(value).expanduser()
        for key in SPLITS:
            if key in data:
                given[key] = self.texts(data[key], f"data.{key}")
        names = self.section(data.get("download_names") or {}, "data.download_names", SPLITS)
        given["download_names"] = {
            key: self.texts(value, f"data.download_names.{key}") for key, value in names.items()
        }
        for part in ("{name}", "{language}"):
            if given["download"] is not None and part not in given["download"]:
                self.fail(f"data.download has no '{part}', which stands for a part of the address")
        given["bpe_merges"] = self.integer(data.get("bpe_merges", 0), "data.bpe_merges", 0)
        joined = data.get("joined_dictionary", False)
        if not isinstance(joined, bool):
            self.wrong("data.joined_dictionary", joined, "true or false")
        given["joined_dictionary"] = joined
        if given["bin"] is None and None in (given["source"], given["target"]):
            self.fail("data has no source or no target language")
        return DataSettings(**given)

    def tuning(self, content: object) -> Tuning:
        """The section tuning."""
        keys = "updates", "seed", "finalists"
        tuning = self.section({} if content is None else content, "tuning", keys)
        return Tuning(
            self.share(tuning.get("updates", Tuning.updates), "tuning.updates"),
            self.integer(tuning.get("seed", Tuning.seed), "tuning.seed", 0),
            self.integer(tuning.get("finalists", Tuning.finalists), "tuning.finalists", 0),
        )

    def smoke(self, content: object, place: str) -> tuple[Options, Options]:
        """A section smoke: options of fairseq-train and of fairseq-generate."""
        smoke = self.section({} if content is None else content, place, ("train", "generate"))
        return (
            self.options(smoke.get("train"), f"{place}.train", "fairseq-train"),
            self.options(smoke.get("generate"), f"{place}.generate", "fairseq-generate"),
        )

    def averaging(self, content: object, place: str) -> Averaging:
        """A number of checkpoints, a section with their distance, or "best"."""
        if content == "best":
            return Averaging(best=True)
        if not isinstance(content, dict):
            return Averaging(self.integer(content, place, 0))
        average = self.section(content, place, ("checkpoints", "every"))
        every = average.get("every")
        if every is not None:
            self.share(every, f"{place}.every")
        return Averaging(self.integer(average.get("checkpoints"), f"{place}.checkpoints", 1), every)

    def systems(self, content: object) -> dict[str, System]:
        """The section systems."""
        if not isinstance(content, dict) or not content:
            self.wrong("systems", content, "at least one system: its name, and its settings")
        systems: dict[str, System] = {}
        folders: dict[str, str] = {}
        for name, settings in content.items():
            name = str(name)
            folder = folder_name(name)
            if not re.fullmatch(r"[\w.-]+", folder) or folder.startswith("."):
                self.fail(
                    f"systems has the name '{name}': only letters, digits, '_', '-', '.', commas "
                    "and blanks are allowed, and no '.' at its beginning"
                )
            if folder in folders:
                self.fail(
                    f"systems has '{folders[folder]}' and '{name}', whose results would be in the "
                    f"same folder {folder}: rename one"
                )
            folders[folder] = name
            systems[name] = self.system(name, settings)
        for name, system in systems.items():
            if system.runs_of is not None:
                self.check_reuse(name, system.runs_of, systems)
            if system.continues is not None:
                self.check_start(name, system, systems)
        return systems

    def system(self, name: str, content: object) -> System:
        """One entry of the section systems."""
        place = f"systems.{name}"
        settings = self.section(content, place, SYSTEM_KEYS)
        title = self.text(settings.get("title"), f"{place}.title") or name
        own = self.options(settings.get("generate"), f"{place}.generate", "fairseq-generate")
        generate = {**self.outer_generate, **own}
        searches = self.outer_searches
        if "searches" in settings:
            searches = self.variants(settings["searches"], f"{place}.searches", "fairseq-generate")
        runs_of = self.text(settings.get("runs_of"), f"{place}.runs_of")
        if runs_of is not None:
            self.section(content, f"{place}, a system with runs_of,", REUSING_KEYS)
            return System(
                *(name, title),
                generate=generate,
                searches=searches,
                runs_of=runs_of,
                smoke_generate=self.outer_smoke[1],
            )
        smoke = self.smoke(settings.get("smoke"), f"{place}.smoke")
        own = self.options(settings.get("train"), f"{place}.train", "fairseq-train")
        system = System(
            name,
            title,
            updates=self.integer(settings.get("updates"), f"{place}.updates", 1, optional=True),
            train={**self.outer_train, **own},
            generate=generate,
            average=self.averaging(settings["average"], f"{place}.average")
            if "average" in settings
            else self.outer_average,
            seeds=self.seeds(settings["seeds"], f"{place}.seeds")
            if "seeds" in settings
            else self.outer_seeds,
            trials=self.variants(settings.get("trials"), f"{place}.trials", "fairseq-train"),
            searches=searches,
            continues=self.text(settings.get("continues"), f"{place}.continues"),
            smoke_train={**self.outer_smoke[0], **smoke[0]},
            smoke_generate={**self.outer_smoke[1], **smoke[1]},
        )
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

    def check_reuse(self, name: str, other: str, systems: dict[str, System]) -> None:
        """``runs_of`` must name a system that is trained."""
        place = f"systems.{name}.runs_of"
        trained = [key for key, system in systems.items() if system.runs_of is None]
        if other not in systems:
            self.fail(f"{place} is '{other}', which is no system; {_choose(trained)}")
        if other not in trained:
            self.fail(f"{place} is '{other}', which uses the runs of another; {_choose(trained)}")
        if not systems[other].seeds:
            self.fail(f"{place} is '{other}', which has no seeds, so that it has no final runs")

    def check_start(self, name: str, system: System, systems: dict[str, System]) -> None:
        """``continues`` must name a system above that is trained."""
        above = list(systems)[: list(systems).index(name)]
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
