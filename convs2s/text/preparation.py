"""The preparation of text for a model, written to ``preparation.yaml`` and read from it.

preparation = Preparation.read("prepared")
tokens = preparation.encode("Zwei Hunde rennen.")
text = preparation.decode("Two dogs are run@@ ning .")
"""

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

import yaml

from .. import __version__
from ..common.data_files import read_yaml
from ..common.errors import UserError
from ..common.installation import installed_version
from ..common.names import check_name, inside
from ..common.output_files import atomic_write
from ..common.plain_files import open_plain
from .settings import Earlier, Settings
from .subwords import METHODS, Subwords, make_subwords
from .tokenizers import TOKENIZERS, Tokenizer, make_tokenizer, normalize, of_sides

FILE_NAME = "preparation.yaml"
FORMAT = 1
SIDES = ("source", "target")
# Folders of a preparation: held-out text, the tokens of all text, and binarized data.
TEXT, TOKENS, DATA = "text", "tokens", "data-bin"
# The entry of text whose tokens have marks of spaces; without it, they have none.
MARKS = "marks_spaces"
PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt")
COMMENT = "# Written by `{}`. Programs that prepare raw text for the model read it.\n"


@dataclass(frozen=True)
class Side:
    """The preparation of one language.

    Attributes:
        language: its code.
        tokenizer: splits text into tokens.
        subwords: splits tokens into sub-words.
        lowercase: whether to change the text to lower case.
    """

    language: str
    tokenizer: Tokenizer
    subwords: Subwords
    lowercase: bool = False

    def normalize(self, line: str) -> str:
        """A line of text in normal form, not yet tokenized."""
        return normalize(line, self.lowercase)

    def encode(self, line: str) -> str:
        """The tokens of a line of text, as the model reads them; "" for an empty line."""
        return self.subwords.encode(self.tokenizer.tokenize(self.normalize(line)))

    def decode(self, tokens: str) -> str:
        """The text of a line of tokens, as the model writes them."""
        return self.tokenizer.detokenize(self.subwords.decode(tokens))


@dataclass(frozen=True)
class Preparation:
    """The preparation of a model's source and target text.

    Attributes:
        source, target: the preparation of each language.
        content: everything in ``preparation.yaml``.
        folder: the folder of that file.
    """

    source: Side
    target: Side
    content: dict[str, Any]
    folder: Path

    @classmethod
    def read(cls, path: str | Path) -> "Preparation":
        """Read a preparation.

        Args:
            path: ``preparation.yaml``, or its folder. Other files are beside it.
        Raises:
            UserError: if there is no such file, it is malformed, or one of its files is missing.
        """
        path = Path(path)
        if path.is_dir():
            path /= FILE_NAME
        content = read_content(path)
        source, target = (_side(content, name, path) for name in SIDES)
        return cls(source, target, content, path.parent)

    def encode(self, line: str) -> str:
        """The tokens of a line of source text, separated by spaces."""
        return self.source.encode(line)

    def decode(self, tokens: str) -> str:
        """The text of a translation, given as tokens separated by spaces."""
        return self.target.decode(tokens)

    def files(self) -> Earlier:
        """The files with which another preparation gets the same sub-words and dictionaries.

        Raises:
            UserError: if the dictionaries are not those that it made.
        """
        names: dict[str, str] = self.content["subwords"].get("files") or {}
        source, target = (self.folder / names[side] if names else None for side in SIDES)
        made = self.content["dictionaries"]
        dictionaries = self.folder / made["source"]["file"], self.folder / made["target"]["file"]
        self.check_dictionaries(*dictionaries)
        return Earlier(self.folder / FILE_NAME, (source, target), dictionaries)

    def check_dictionaries(self, source: str | Path, target: str | Path) -> None:
        """Check that a model's dictionaries are those that this preparation made.

        Args:
            source, target: the model's files ``dict.LANGUAGE.txt``.
        Raises:
            UserError: if a file differs.
        """
        for name, path in zip(SIDES, (source, target)):
            made = self.content["dictionaries"][name]
            if digest(Path(path)) != made["sha256"]:
                raise UserError(
                    f"{path} is not the dictionary {made['file']} that {self.folder / FILE_NAME} "
                    "belongs to: give the preparation of this model."
                )


def read_content(path: Path) -> dict[str, Any]:
    """The checked content of a file ``preparation.yaml``.

    Raises:
        UserError: if there is no such file, or it is malformed.
    """
    if not path.is_file():
        raise UserError(f"There is no file {path}: give the folder that `convs2s prepare` wrote.")
    content = read_yaml(path)
    if not isinstance(content, dict) or "format" not in content:
        _fail(path, "it has no format, so `convs2s prepare` did not write it")
    if content["format"] != FORMAT:
        _fail(path, f"its format is {content['format']}, but this version reads {FORMAT}")
    tokenizer, method = content.get("tokenizer"), _at(content, "subwords", "method")
    if not all(name in TOKENIZERS for name in of_sides(str(tokenizer))):
        _fail(
            path,
            f"its tokenizer is '{tokenizer}'; allowed: {', '.join(TOKENIZERS)}, or two of them "
            "with a slash between",
        )
    if str(method) not in ("none", *METHODS):
        _fail(path, f"subwords.method is '{method}'; allowed: none, {', '.join(METHODS)}")
    files = _at(content, "subwords", "files")
    if files is not None and (not isinstance(files, dict) or {*files} != {*SIDES}):
        _fail(path, f"subwords.files has other keys than {' and '.join(SIDES)}")
    for name in SIDES:
        keys = [
            ("languages", name),
            ("dictionaries", name, "file"),
            ("dictionaries", name, "sha256"),
        ]
        keys += [] if method == "none" and files is None else [("subwords", "files", name)]
        for key in keys:
            value = _at(content, *key)
            if not isinstance(value, str):
                _fail(path, f"{'.'.join(key)} is not text")
            if "languages" in key:
                check_name(value, f"{path}: {'.'.join(key)}")
            elif "sha256" not in key:
                inside(path.parent, value, f"{path}: {'.'.join(key)}")
    return content


def check_counts(content: dict[str, Any], path: Path) -> None:
    """Check that a preparation has the counts of its text, as ``convs2s prepare`` writes them.

    Args:
        content: what ``read_content`` returned.
        path: its file, for the error.
    Raises:
        UserError: if it does not.
    """
    for key in ("pairs", "read", "left_out", "longest"):
        counts = content.get(key)
        if not isinstance(counts, dict) or not all(type(n) is int for n in counts.values()):
            _fail(path, f"{key} is not a list of counts, so `convs2s prepare` did not write it")
    for keys in (("pairs", "train"), ("read", "train")):
        if _at(content, *keys) is None:
            _fail(path, f"it has no {'.'.join(keys)}")
    if not isinstance(_at(content, "subwords", "joint"), bool):
        _fail(path, "subwords.joint is neither true nor false")


def digest(path: Path) -> str:
    """The SHA-256 of a file.

    Raises:
        UserError: if there is no such file.
    """
    found = hashlib.sha256()
    with open_plain(path) as file:
        while part := file.read(2**20):
            found.update(part)
    return found.hexdigest()


def _side(content: dict[str, Any], name: str, path: Path) -> Side:
    file = _at(content, "subwords", "files", name)
    language, method = content["languages"][name], content["subwords"]["method"]
    names = dict(zip(SIDES, of_sides(content["tokenizer"])))
    tokenizer = make_tokenizer(names[name], language, content.get(MARKS, False))
    subwords = make_subwords(method, None if method == "none" else path.parent / file)
    return Side(language, tokenizer, subwords, bool(content.get("lowercase")))


def _at(content: Any, *keys: str) -> Any:
    """The value at a path of keys; None if there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _fail(path: Path, message: str) -> NoReturn:
    raise UserError(f"{path} is not a preparation: {message}.")


def write_record(
    out: Path,
    settings: Settings,
    size: int | None,
    models: Sequence[str | None],
    counts: dict[str, Any],
) -> dict[str, Any]:
    """Write the file of ``convs2s prepare`` and return its content.

    Args:
        out: folder of the preparation; the binarized data must be there.
        settings: settings of the preparation.
        size: size of the sub-words, or the most entries of a dictionary; None without a limit.
        models: names of the files of sub-words of source and target; None without sub-words.
        counts: counts of pairs and tokens.
    """
    versions = {"convs2s-plugin": __version__}
    for name in PACKAGES:
        if (version := installed_version(name)) is not None:
            versions[name] = version
    subwords = {
        "method": settings.method,
        "size": size,
        "joint": settings.joint,
        "files": dict(zip(SIDES, models)) if settings.method != "none" else None,
    }
    more = {MARKS: True, **counts, "settings": settings.recorded(), "versions": versions}
    languages, tokenizer, lowercase = settings.languages, settings.tokenizer, settings.lowercase
    command = "convs2s prepare"
    return write_preparation(out, command, languages, tokenizer, lowercase, subwords, DATA, more)


def write_preparation(
    out: Path,
    command: str,
    languages: Sequence[str],
    tokenizer: str,
    lowercase: bool,
    subwords: dict[str, Any],
    data: str,
    more: dict[str, Any],
) -> dict[str, Any]:
    """Write the file and return its content.

    Args:
        out: folder of the preparation; the dictionaries must be there.
        command: the command that writes it.
        languages: source and target.
        tokenizer: a key of ``TOKENIZERS``, or two, see ``of_sides``.
        lowercase: whether all text is in lower case.
        subwords: their method and their files, if any.
        data: folder of the dictionaries, in ``out``.
        more: what ``Preparation`` does not need.
    """
    content = {
        "format": FORMAT,
        "languages": dict(zip(SIDES, languages)),
        "lowercase": lowercase,
        "tokenizer": tokenizer,
        "subwords": subwords,
        "data": data,
        "dictionaries": _dictionaries(out, languages, data),
        **more,
    }
    _save(out, command, content)
    return content


def copy_preparation(preparation: Preparation, out: Path, command: str) -> None:
    """Write a preparation into the folder of a model, without the names of the text's files.

    Args:
        preparation: the preparation.
        out: the folder; the dictionaries must be there.
        command: the command that writes it.
    """
    content = {name: value for name, value in preparation.content.items() if name != "settings"}
    for name in dict.fromkeys((content["subwords"].get("files") or {}).values()):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(preparation.folder / name, out / name)
    languages = preparation.source.language, preparation.target.language
    content |= {"data": ".", "dictionaries": _dictionaries(out, languages, ".")}
    _save(out, command, content)


def write_codes(out: Path, command: str, languages: Sequence[str], codes: Path) -> None:
    """Write the preparation of tokenized text that codes of subword-nmt split.

    Args:
        out, command, languages: as for ``write_preparation``.
        codes: the file of the codes.
    """
    shutil.copyfile(codes, out / codes.name)
    files = dict.fromkeys(SIDES, codes.name)
    subwords = {"method": "subword_nmt", "files": files}
    write_preparation(out, command, languages, "none", False, subwords, ".", {})


def _dictionaries(out: Path, languages: Sequence[str], data: str) -> dict[str, dict[str, Any]]:
    files = [(PurePosixPath(data) / f"dict.{language}.txt") for language in languages]
    return {
        side: {
            "file": str(file),
            "tokens": (out / file).read_bytes().count(b"\n"),
            "sha256": digest(out / file),
        }
        for side, file in zip(SIDES, files)
    }


def _save(out: Path, command: str, content: dict[str, Any]) -> None:
    with atomic_write(str(out / FILE_NAME)) as file:
        file.write(COMMENT.format(command))
        yaml.safe_dump(content, file, sort_keys=False, allow_unicode=True)
