"""Binarize the text of an experiment, or use data that is binarized already."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.output_files import atomic_write
from ..common.programs import Programs
from ..text.binarize import preprocess_command
from .file import DataSettings
from .text import Pair, TextFolder, download, names_to_download, unpack_pair


@dataclass(frozen=True)
class Data:
    """Binarized data.

    Attributes:
        bin: its folder.
        source, target: languages.
        tests: names of the test sets -> fairseq's names; the first one is the most important.
    """

    bin: Path
    source: str
    target: str
    tests: dict[str, str]

    @property
    def subsets(self) -> dict[str, str]:
        """Names of all splits to translate -> fairseq's names."""
        return {"valid": "valid", **self.tests}

    @property
    def first_test(self) -> str:
        """The name of the test set that decides."""
        return next(iter(self.tests))


class DataFolder:
    """Makes and reads ``OUT/data`` and ``OUT/references``.

    Args:
        settings: the section data of the experiment.
        out: the folder OUT.
        programs: starts programs.
        fetch: download the text.
        say: prints a line.
    """

    def __init__(
        self,
        settings: DataSettings,
        out: Path,
        programs: Programs,
        fetch: bool,
        say: Callable[[str], None],
    ):
        self.settings = settings
        self.folder = out / "data"
        self.references = out / "references"
        self.programs = programs
        self.fetch = fetch
        self.say = say

    def prepare(self) -> Data:
        """Binarize the text unless that is done.

        Raises:
            UserError: if there is no such text, or earlier data had other settings.
            ProgramFailed: if a program fails.
        """
        mark = self.folder / "data.json"
        settings = self.recorded()
        if mark.exists():
            earlier = json.loads(mark.read_text(encoding="utf-8"))
            self.check(earlier["settings"], settings)
            tests = earlier["tests"]
            if self.settings.bin is None:
                self.say(f"The text of an earlier start is used; test sets: {', '.join(tests)}.")
        elif self.settings.bin is not None:
            tests = binarized(self.settings).tests
        elif self.fetch and self.programs.dry:
            names = names_to_download(self.settings)
            tests = self.binarize(dict.fromkeys(["train", "valid", *names[2:]]))
        else:
            tests = self.binarize(self.splits())
        if not mark.exists() and not self.programs.dry:
            self.folder.mkdir(exist_ok=True)
            with atomic_write(str(mark)) as file:
                json.dump({"settings": settings, "tests": tests}, file, indent=2)
        if self.settings.bin is not None:
            return binarized(self.settings)
        return Data(self.folder / "data-bin", *self.languages, tests)

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return str(self.settings.source), str(self.settings.target)

    def recorded(self) -> dict[str, Any]:
        """The settings that the data depends on."""
        names = ["source", "target"]
        if self.settings.bin is None:
            names += ["train", "valid", "test", "bpe_merges", "joined_dictionary"]
        folder = self.settings.bin and str(self.settings.bin.resolve())
        recorded = {"bin": folder, **{name: getattr(self.settings, name) for name in names}}
        return json.loads(json.dumps(recorded))

    def check(self, earlier: dict[str, Any], settings: dict[str, Any]) -> None:
        for name, value in settings.items():
            if earlier.get(name) != value:
                raise UserError(
                    f"{self.folder} was made with data.{name} {earlier.get(name)}, but now it is "
                    f"{value}: choose another folder with --out, or remove {self.folder.parent}."
                )

    def splits(self) -> dict[str, Pair]:
        """The files of train, valid and the test sets."""
        folder = self.settings.text
        names = {key: getattr(self.settings, key) for key in ("train", "valid", "test")}
        if self.fetch:
            if self.settings.download is None:
                raise UserError("--download needs an address: data.download in the file.")
            folder = self.folder / "download"
            names |= self.settings.download_names
            self.say(f"Text from {self.settings.download}")
            download(self.settings, self.languages, folder)
        if folder is None:
            other = ", or --download" if self.settings.download else ""
            raise UserError(f"There is no text: give its folder with --text{other}.")
        text = TextFolder(folder, self.languages)
        found = {}
        used = []
        for split in ("train", "valid"):
            name, found[split] = text.first(names[split])
            used.append(name)
        tests = text.all(names["test"], used)
        for name in tests:
            if name in found:
                raise UserError(f"A test set of {folder} has the name {name}: give it another one.")
        return {**found, **tests}

    def binarize(self, splits: dict[str, Any]) -> dict[str, str]:
        """Write text, sub-words and binarized data; return the test sets."""
        text = self.folder / "text"
        languages = self.languages
        made = [self.folder / name for name in ("text", "bpe", "data-bin", "logs")]
        for path in (path for pair in splits.values() if pair for path in pair):
            if any(path.resolve().is_relative_to(folder) for folder in made):
                raise UserError(
                    f"{path} is in a folder of the output, which is made anew: move the text "
                    "elsewhere, or choose another folder with --out."
                )
        if not self.programs.dry:
            for folder in made:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            self.references.mkdir(exist_ok=True)
            for name, pair in splits.items():
                targets = (text / f"{name}.{languages[0]}", text / f"{name}.{languages[1]}")
                self.say(f"{name}: {unpack_pair(pair, targets):,} sentence pairs")
                if name != "train":
                    shutil.copyfile(targets[1], self.references / name)
        if self.settings.bpe_merges:
            text = self.apply_bpe(text, [*splits])
        tests = [name for name in splits if name not in ("train", "valid")]
        command = preprocess_command(
            languages,
            text / "train",
            text / "valid",
            [text / name for name in tests],
            self.folder / "data-bin",
            self.settings.joined_dictionary,
        )
        self.programs.run(command, self.folder / "logs" / "preprocess.log")
        return {name: f"test{number or ''}" for number, name in enumerate(tests)}

    def apply_bpe(self, text: Path, splits: list[str]) -> Path:
        """Learn BPE on the training text of both languages, and apply it to all text."""
        self.say(f"BPE with {self.settings.bpe_merges:,} merges, learned on both languages")
        both, codes = self.folder / "train.both", self.folder / "codes.bpe"
        logs, bpe = self.folder / "logs", self.folder / "bpe"
        if not self.programs.dry:
            with open(both, "wb") as file:
                for language in self.languages:
                    file.write((text / f"train.{language}").read_bytes())
        self.programs.run(
            ["subword-nmt", "learn-bpe", "-s", self.settings.bpe_merges],
            *(logs / "learn-bpe.log", both, codes),
        )
        for name in [f"{split}.{language}" for split in splits for language in self.languages]:
            self.programs.run(
                ["subword-nmt", "apply-bpe", "-c", codes],
                *(logs / f"apply-bpe.{name}.log", text / name, bpe / name),
            )
        return bpe


def binarized(settings: DataSettings) -> Data:
    """Data that fairseq-preprocess wrote earlier.

    Raises:
        UserError: if the folder has no training, validation or test data.
    """
    folder = settings.bin
    assert folder is not None
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder} of binarized data.")
    names = sorted(path.name for path in folder.iterdir())
    pairs = {
        (found[2], found[3])
        for found in (re.match(r"(train)\.([^.]+)-([^.]+)\.", name) for name in names)
        if found
    }
    wanted = (settings.source, settings.target)
    if None in wanted and len(pairs) == 1:
        wanted = pairs.pop()
    elif wanted not in pairs:
        listed = ", ".join("-".join(pair) for pair in sorted(pairs)) or "none"
        raise UserError(
            f"{folder} has no training data from {wanted[0]} to {wanted[1]}; it has {listed}. "
            "fairseq-preprocess writes one direction: to swap languages, use --text."
        )
    source, target = map(str, wanted)
    tests = {
        found[1]
        for found in (re.match(rf"(test\d*)\.{source}-{target}\.", name) for name in names)
        if found
    }
    if not tests:
        raise UserError(f"{folder} has no test set from {source} to {target}.")
    ordered = sorted(tests, key=lambda name: (len(name), name))
    return Data(folder.resolve(), source, target, {name: name for name in ordered})
