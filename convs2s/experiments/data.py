"""The data of an experiment: find or download its text and binarize it, or use what is there."""

import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..common.compression import OPENERS, without_compression
from ..common.errors import UserError
from ..common.names import check_name, is_name
from ..common.output_files import atomic_path, write_lines
from ..common.programs import relative_path
from ..common.resuming import check_unchanged
from ..common.text_files import read_parallel, read_sentences
from ..text.preparation import DATA, FILE_NAME, MARKS, TEXT, TOKENS, Preparation, read_content
from ..text.sources import PairWriter
from ..text.subwords import make_subwords
from ..text.symbols import unescape, unescape_joints
from ..text.tokenizers import OF_CHARACTERS, make_tokenizer, of_sides
from .commands import Data
from .file import DataSettings
from .records import as_json, read_json, write_json

Pair = tuple[Path, Path]


@dataclass(frozen=True)
class DataFolders:
    """The folders in which an experiment keeps a data set.

    Attributes:
        out: the output folder of the experiment.
        data_set: name of the data set; "" for the only one.
    """

    out: Path
    data_set: str = ""

    @property
    def data(self) -> Path:
        """The folder of what is made from text."""
        return self.out / "data" / self.data_set

    @property
    def references(self) -> Path:
        """The folder of the references."""
        return self.out / "references" / self.data_set


def prepare_data(
    settings: DataSettings,
    folders: DataFolders,
    fetch: bool,
    dry: bool,
    say: Callable[[str], None],
) -> Data:
    """Make data and references from text, unless that is done.

    Args:
        settings: the settings of one data set.
        folders: where they are made.
        fetch: whether to download the text.
        dry: whether to make nothing.
        say: prints a line.
    Raises:
        UserError: if there is no such text, or earlier data had other settings.
    """
    folder = folders.data
    mark = folder / "data.json"
    recorded, earlier = _recorded(settings), read_json(mark)
    if earlier is not None:
        advice = f"choose another folder with --out, or remove {folders.out}"
        check_unchanged(
            earlier.get("settings") or {}, recorded, f"{folder} was made with data.", advice
        )
    data = expected_data(settings, folders)
    if settings.needs_text:
        if earlier is not None:
            tests = _recorded_tests(earlier, mark)
            say(f"The text of an earlier run is used; test sets: {', '.join(tests)}.")
        elif dry:
            print(f"# makes {relative_path(folder)} with text, sub-words and binarized data")
            known = names_to_download(settings) if fetch else _splits(settings, folder, False, say)
            tests = numbered([*known][2:])
        else:
            tests = _binarize(settings, folders, _splits(settings, folder, fetch, say), say)
        data = replace(data, tests=tests)
    if earlier is None and not dry:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(mark, {"settings": recorded, "tests": data.tests})
    if settings.monolingual is not None:
        data = replace(data, monolingual=_encode_monolingual(settings, folders, data, dry, say))
    return data


def _encode_monolingual(
    settings: DataSettings,
    folders: DataFolders,
    data: Data,
    dry: bool,
    say: Callable[[str], None],
) -> Path:
    """Make tokens of the monolingual text, without its empty lines, unless that is done.

    Args:
        settings, folders, dry, say: as for ``prepare_data``.
        data: the data that it belongs to.
    Returns:
        The file with the tokens.
    Raises:
        UserError: if the text cannot be read, or an earlier run used another file.
    """
    assert settings.monolingual is not None
    path = folders.data / f"monolingual.{data.target}"
    mark = folders.data / "monolingual.json"
    file = "generated" if settings.generated else str(settings.monolingual.resolve())
    recorded = {"monolingual": file}
    if (earlier := read_json(mark)) is not None:
        advice = f"choose another folder with --out, or remove {mark}"
        check_unchanged(earlier, recorded, f"{path} was made with data.", advice)
    elif dry:
        print(f"# makes {relative_path(path)}")
    else:
        say(f"Tokens of {settings.monolingual}")
        if settings.prepared is not None:
            encode = Preparation.read(settings.prepared).target.encode
        else:
            # It imports what starts processes, which would delay a dry run.
            from ..text.pipeline import SUFFIXES

            codes = folders.data / SUFFIXES["subword_nmt"] if settings.bpe_merges else None
            encode = make_subwords("subword_nmt", codes).encode
        write_lines(str(path), filter(None, map(encode, read_sentences(str(settings.monolingual)))))
        write_json(mark, recorded)
    return path


def expected_data(settings: DataSettings, folders: DataFolders) -> Data:
    """The data that ``prepare_data`` returns, without the test sets of text.

    Raises:
        UserError: if binarized data is not there.
    """
    if settings.bin is not None:
        return binarized(settings.bin, settings)
    if settings.prepared is None:
        return Data(folders.data / DATA, *settings.languages, {})
    content = read_content(settings.prepared / FILE_NAME)
    # If its package is missing, this fails now rather than after the training run.
    detokenizer(settings.prepared)
    marks = of_sides(content["tokenizer"])[1] in OF_CHARACTERS
    marks = marks or content["subwords"]["method"] == "sentencepiece"
    data = binarized(settings.prepared / DATA, settings)
    return replace(data, prepared=settings.prepared.resolve(), marks_spaces=marks)


def detokenizer(prepared: Path | None) -> Callable[[str], str]:
    """Makes text from target tokens whose sub-words are joined.

    Args:
        prepared: their preparation; None if the text was tokenized before.

    Raises:
        UserError: if there is no preparation, or a package for its tokenizer is missing.
    """
    if prepared is None:
        return lambda tokens: unescape(unescape_joints(tokens))
    content = read_content(prepared / FILE_NAME)
    name = of_sides(content["tokenizer"])[1]
    if name in OF_CHARACTERS:
        # Joined characters are text.
        compose = partial(unicodedata.normalize, "NFC") if name == "letters" else str
        return lambda text: compose(unescape(text))
    tokenizer = make_tokenizer(name, content["languages"]["target"], content.get(MARKS, False))
    joints = unescape_joints if content["subwords"]["method"] == "subword_nmt" else str
    return lambda tokens: tokenizer.detokenize(unescape(joints(tokens)))


def _recorded(settings: DataSettings) -> dict[str, Any]:
    """The settings that the data depends on."""
    names = ["source", "target"]
    if settings.needs_text:
        names += ["train", "valid", "test", "bpe_merges", "joined_dictionary"]
    recorded = {name: getattr(settings, name) for name in names}
    if settings.prepared is not None:
        recorded["prepared"] = str(settings.prepared.resolve())
    return as_json({"bin": settings.bin and str(settings.bin.resolve()), **recorded})


def _recorded_tests(content: dict[str, Any], path: Path) -> dict[str, str]:
    """The test sets of an earlier run.

    Raises:
        UserError: if they have no names.
    """
    tests = content.get("tests")
    if not isinstance(tests, dict) or [*numbered([*tests]).values()] != [*tests.values()]:
        raise UserError(f"{path} is damaged: it has no test sets. Remove the folder of the data.")
    for name in tests:
        check_name(name, f"{path}: the name of a test set")
    return tests


def _splits(
    settings: DataSettings, out: Path, fetch: bool, say: Callable[[str], None]
) -> dict[str, Pair]:
    """The files of train, valid and the test sets; ``out`` gets what is downloaded."""
    folder = settings.text
    names = {name: getattr(settings, name) for name in ("train", "valid", "test")}
    if fetch:
        if settings.download is None:
            raise UserError("--download needs an address: data.download in the file.")
        folder = out / "download"
        names.update((str(name), given) for name, given in settings.download_names.items())
        say(f"Text from {settings.download}")
        download(settings.download, names_to_download(settings), settings.languages, folder)
    if folder is None:
        other = ", or --download" if settings.download else ""
        raise UserError(f"There is no text: give its folder with --text{other}.")
    text = TextFolder(folder, settings.languages)
    train, train_pair = text.first(names["train"])
    valid, valid_pair = text.first(names["valid"])
    tests = text.all(names["test"], [train, valid])
    for name in ("train", "valid"):
        if name in tests:
            raise UserError(f"A test set of {folder} has the name {name}: give it another one.")
    return {"train": train_pair, "valid": valid_pair, **tests}


def _binarize(
    settings: DataSettings,
    folders: DataFolders,
    splits: dict[str, Pair],
    say: Callable[[str], None],
) -> dict[str, str]:
    """Write text, sub-words and binarized data; return the test sets."""
    languages, merges = settings.languages, settings.bpe_merges
    made = [folders.data / name for name in (TEXT, TOKENS, DATA)]
    for path in (path for pair in splits.values() for path in pair):
        if any(path.resolve().is_relative_to(folder) for folder in made):
            raise UserError(
                f"{path} is in a folder of the output, which is made again: move the text "
                "elsewhere, or choose another folder with --out."
            )
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)
    text = made[0]
    text.mkdir(parents=True)
    folders.references.mkdir(parents=True, exist_ok=True)
    for name, pair in splits.items():
        say(f"{name}: {unpack_pair(pair, text, name, languages):,} sentence pairs")
        if name != "train":
            shutil.copyfile(text / f"{name}.{languages[1]}", folders.references / name)
    # It imports what starts processes, which would delay a dry run.
    from ..text.workflow import prepare_tokens

    say(f"Binarized data with {merges:,} merges of sub-words")
    tests = numbered(splits)
    prepare_tokens(text, languages, [*tests], folders.data, merges, settings.joined_dictionary)
    return tests


def numbered(splits: Iterable[str]) -> dict[str, str]:
    """The test sets among splits -> fairseq's names."""
    tests = [name for name in splits if name not in ("train", "valid")]
    return {name: f"test{number or ''}" for number, name in enumerate(tests)}


def binarized(folder: Path, settings: DataSettings) -> Data:
    """Data that fairseq-preprocess wrote earlier.

    Args:
        folder: its folder.
        settings: the languages; None for those of the only training data.
    Raises:
        UserError: if the folder has no training or test data.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder} of binarized data.")
    names = "\n".join(sorted(path.name for path in folder.iterdir()))
    pairs = sorted(set(re.findall(r"^train\.([^.\n]+)-([^.\n]+)\.", names, re.MULTILINE)))
    pairs = [pair for pair in pairs if all(map(is_name, pair))]
    wanted = (settings.source, settings.target)
    if len(pairs) == 1 and all(one in (None, found) for one, found in zip(wanted, pairs[0])):
        wanted = pairs[0]
    elif wanted not in pairs:
        listed = ", ".join("-".join(pair) for pair in pairs) or "none"
        source, target = (language or "any language" for language in wanted)
        raise UserError(
            f"{folder} has no training data from {source} to {target}; it has {listed}. "
            "fairseq-preprocess writes one direction: to swap languages, use --text."
        )
    source, target = map(str, wanted)
    languages = re.escape(f"{source}-{target}")
    tests = set(re.findall(rf"^(test\d*)\.{languages}\.", names, re.MULTILINE))
    if not tests:
        raise UserError(f"{folder} has no test set from {source} to {target}.")
    ordered = sorted(tests, key=lambda name: (len(name), name))
    return Data(folder.resolve(), source, target, {name: name for name in ordered})


class TextFolder:
    """The files of two languages in a folder: ``NAME.LANGUAGE`` or ``NAME.anything.LANGUAGE``.

    Each may be compressed (.gz, .bz2, .xz).

    Args:
        folder: the folder.
        languages: source and target.
    """

    def __init__(self, folder: Path, languages: tuple[str, str]):
        self.folder = folder
        self.languages = languages
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder} with the text of the experiment.")
        # The files of each language: name without language and compression -> paths.
        self.files: tuple[dict[str, list[Path]], ...] = ({}, {})
        for path in sorted(folder.iterdir()):
            name = without_compression(path.name)
            for files, language in zip(self.files, languages):
                if name.endswith(f".{language}") and path.is_file():
                    files.setdefault(name[: -len(language) - 1], []).append(path)

    def first(self, names: Iterable[str]) -> tuple[str, Pair]:
        """The first name of which there are files, and the files of both languages."""
        names = list(names)
        for name in names:
            if any(self.matches(name, files) for files in self.files):
                return name, self.pair(name)
        raise UserError(
            f"{self.folder} has no file {' or '.join(names)} in {' or '.join(self.languages)}, "
            f"such as {names[0]}.{self.languages[0]} or {names[0]}.{self.languages[0]}.gz; "
            f"it has {self.content()}."
        )

    def all(self, patterns: Iterable[str], without: Iterable[str]) -> dict[str, Pair]:
        """The files of all names that match a pattern, in both languages."""
        used = set(without)
        found: dict[str, Pair] = {}
        for pattern in patterns:
            for name in self.names(pattern):
                if name not in used and name not in found:
                    found[name] = self.pair(name)
        if not found:
            raise UserError(
                f"{self.folder} has no test set {' or '.join(patterns)} in both "
                f"{' and '.join(self.languages)}; it has {self.content()}."
            )
        return found

    def names(self, pattern: str) -> list[str]:
        """The names in both languages that match a pattern.

        A name ends at its first dot if that makes it neither ambiguous nor another one.
        """
        stems = sorted(self.files[0].keys() & self.files[1].keys())
        if pattern in {stem.partition(".")[0] for stem in stems}:
            return [pattern]
        short: dict[str, list[str]] = {}
        for stem in stems:
            first = stem.partition(".")[0]
            if fnmatchcase(first, pattern) or fnmatchcase(stem, pattern):
                short.setdefault(first, []).append(stem)
        names = []
        for first, several in short.items():
            names += [first] if len(several) == 1 and fnmatchcase(first, pattern) else several
        return sorted(names)

    def pair(self, name: str) -> Pair:
        """The only file of a name in each language."""
        paths = []
        for files, language in zip(self.files, self.languages):
            found = self.matches(name, files)
            if len(found) != 1:
                listed = ", ".join(path.name for path in found) or self.content()
                raise UserError(
                    f"{self.folder} must have exactly one file of {name} in {language} "
                    f"({name}.{language} or {name}.*.{language}, which may be compressed); "
                    f"it has {listed}."
                )
            paths += found
        return paths[0], paths[1]

    def matches(self, name: str, files: dict[str, list[Path]]) -> list[Path]:
        """The files ``NAME`` and ``NAME.anything``."""
        return [
            path
            for stem, paths in files.items()
            if stem == name or stem.startswith(f"{name}.")
            for path in paths
        ]

    def content(self) -> str:
        """The names of the files, for errors."""
        names = sorted(path.name for path in self.folder.iterdir())
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "no files"


def unpack_pair(pair: Pair, folder: Path, name: str, languages: tuple[str, str]) -> int:
    """Write the text of both languages without compression and return the number of lines."""
    count = 0
    with PairWriter(folder, name, languages) as writer:
        for _, (source, target) in read_parallel([*map(str, pair)]):
            count += 1
            writer.write(source, target)
    if not count:
        raise UserError(f"{pair[0]} and {pair[1]} have no lines.")
    return count


def download(
    addresses: str, names: Iterable[str], languages: tuple[str, str], folder: Path
) -> None:
    """Download the text of all splits to a folder; files that are there are kept.

    Args:
        addresses: the address of the files, with "{name}" and "{language}".
        names, languages: what takes their places.
        folder: the folder.
    Raises:
        UserError: if an address does not answer, or a file cannot be written.
    """
    # It imports urllib, which would delay a dry run.
    from ..common import archives

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for language in languages:
            address = addresses.replace("{name}", name).replace("{language}", language)
            suffix = Path(address).suffix if Path(address).suffix in OPENERS else ""
            path = folder / f"{name}.{language}{suffix}"
            if not path.exists():
                with atomic_path(str(path)) as partial:
                    archives.download(address, Path(partial))


def names_to_download(settings: DataSettings) -> list[str]:
    """The names to download: of train, of valid, and of the test sets."""
    names = settings.download_names
    return [
        names.get("train", settings.train)[0],
        names.get("valid", settings.valid)[0],
        *names.get("test", [name for name in settings.test if not set("*?[") & set(name)]),
    ]
