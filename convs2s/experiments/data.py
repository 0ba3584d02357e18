"""Binarize the text of an experiment, or use data that is binarized already."""

import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.programs import relative_path
from ..text import prepare_tokens
from ..text.preparation import DATA
from ..text.workflow import TOKENS
from .commands import Data
from .file import DataSettings
from .results import read_json, write_json
from .text import Pair, TextFolder, download, names_to_download, unpack_pair


class DataFolder:
    """Makes and reads ``OUT/data`` and ``OUT/references``.

    Args:
        settings: the section data of the experiment.
        out: the folder OUT.
        fetch: download the text.
        dry: make nothing.
        say: prints a line.
    """

    def __init__(
        self,
        settings: DataSettings,
        out: Path,
        fetch: bool,
        dry: bool,
        say: Callable[[str], None],
    ):
        self.settings = settings
        self.folder = out / "data"
        self.references = out / "references"
        self.fetch = fetch
        self.dry = dry
        self.say = say

    def prepare(self) -> Data:
        """Binarize the text unless that is done.

        Raises:
            UserError: if there is no such text, or earlier data had other settings.
        """
        mark = self.folder / "data.json"
        settings = self.recorded()
        earlier = read_json(mark)
        if earlier is not None:
            self.check(earlier["settings"], settings)
            tests = earlier["tests"]
            if self.settings.bin is None:
                self.say(f"The text of an earlier start is used; test sets: {', '.join(tests)}.")
        elif self.settings.bin is not None:
            tests = binarized(self.settings).tests
        elif self.dry:
            print(f"# makes {relative_path(self.folder)} with text, sub-words and binarized data")
            named = names_to_download(self.settings)[2:] if self.fetch else self.splits()
            tests = numbered(named)
        else:
            tests = self.binarize(self.splits())
        if earlier is None and not self.dry:
            self.folder.mkdir(exist_ok=True)
            write_json(mark, {"settings": settings, "tests": tests})
        if self.settings.bin is not None:
            return binarized(self.settings)
        return Data(self.folder / DATA, *self.languages, tests)

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

    def binarize(self, splits: dict[str, Pair]) -> dict[str, str]:
        """Write text, sub-words and binarized data; return the test sets."""
        made = [self.folder / name for name in ("text", TOKENS, DATA)]
        for path in (path for pair in splits.values() for path in pair):
            if any(path.resolve().is_relative_to(folder) for folder in made):
                raise UserError(
                    f"{path} is in a folder of the output, which is made anew: move the text "
                    "elsewhere, or choose another folder with --out."
                )
        for folder in made:
            shutil.rmtree(folder, ignore_errors=True)
        text, languages, settings = made[0], self.languages, self.settings
        text.mkdir(parents=True)
        self.references.mkdir(exist_ok=True)
        for name, pair in splits.items():
            self.say(f"{name}: {unpack_pair(pair, text, name, languages):,} sentence pairs")
            if name != "train":
                shutil.copyfile(text / f"{name}.{languages[1]}", self.references / name)
        self.say(f"Binarized data with {settings.bpe_merges:,} merges of sub-words")
        tests = numbered(splits)
        prepare_tokens(
            text,
            languages,
            [*tests],
            self.folder,
            settings.bpe_merges,
            settings.joined_dictionary,
        )
        return tests


def numbered(splits: Iterable[str]) -> dict[str, str]:
    """The test sets among splits -> fairseq's names."""
    tests = [name for name in splits if name not in ("train", "valid")]
    return {name: f"test{number or ''}" for number, name in enumerate(tests)}


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
