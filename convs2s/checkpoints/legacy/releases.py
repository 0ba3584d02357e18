"""Conversion of a folder with checkpoints of fconv or lightconv, their dictionaries and BPE codes.

fairseq's released archives have ``model.pt``, ``dict.en.txt``, ``dict.de.txt`` and ``bpecodes``.
MLConvGEC (Chollampatt and Ng, 2018) has ``mlconv/model1.pt``, ``data_bin/dict.src.txt``,
``data_bin/dict.trg.txt`` and ``bpe_model/train.bpe.model``.
"""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from ... import __version__
from ...common.errors import UserError
from ...common.names import check_name
from ...text.preparation import digest, write_preparation
from ...text.subwords import SubwordNmt
from ...text.vocabulary import Vocabulary
from ..files import save_checkpoint
from .reading import read_old_checkpoint

CODES = "bpecodes"
_DICTIONARY = re.compile(r"dict\.([\w-]+)\.txt")
_CODES = re.compile(r"(bpe)?[._-]?codes?([._-](bpe|txt|\d+k?))?|.*\.bpe\.model", re.IGNORECASE)
_PAIR = re.compile(r"(?<![a-z])([a-z]{2,3})-([a-z]{2,3})(?![a-z])")
# Languages of MLConvGEC and others, whose text was not tokenized as Moses does it.
_NO_LANGUAGES = {"src", "trg", "tgt", "source", "target"}
# From the content of a checkpoint and its name to the content of the new one.
Convert = Callable[[Any, str], dict[str, Any]]
_SIDES = {"source": "encoder", "target": "decoder"}


@dataclass(frozen=True)
class ReleaseOptions:
    """The choices of a conversion; None for the defaults.

    Attributes:
        source_lang, target_lang: the languages; those of the checkpoint, or those in the name of
            the release.
        tokenizer: a key of ``TOKENIZERS``; "moses_fairseq", or "none" if the languages are called
            ``src`` and ``trg``.
        bpe_codes: file of subword-nmt's codes; that of the folder.
        lowercase: whether the model was trained on text in lower case.
        checkpoint: paths inside the folder; all ``.pt`` files.
    """

    source_lang: str | None = None
    target_lang: str | None = None
    tokenizer: str | None = None
    bpe_codes: str | None = None
    lowercase: bool = False
    checkpoint: Sequence[str] | None = None


def is_wanted(path: PurePath) -> bool:
    """Whether a file of a release is needed: a checkpoint, a dictionary or BPE codes."""
    name = path.name
    return bool(path.suffix == ".pt" or _DICTIONARY.fullmatch(name) or _CODES.fullmatch(name))


def convert_file(convert_checkpoint: Convert, path: Path, name: str) -> dict[str, Any]:
    """Convert a checkpoint.

    Args:
        convert_checkpoint: the conversion of its content.
        path: its file.
        name: what it is called in errors.
    Raises:
        UserError: if it cannot be read or converted, or contradicts itself.
    """
    content = read_old_checkpoint(str(path), name).content
    try:
        return convert_checkpoint(content, name)
    except UserError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise UserError(f"{name} has options or weights that contradict each other.") from error


def convert_release(
    folder: Path,
    new: Path,
    options: ReleaseOptions,
    name: str,
    convert_checkpoint: Convert,
    command: str,
) -> tuple[dict[str, int], dict[str, Any]]:
    """Convert all checkpoints of a folder, and write the preparation of their text.

    Args:
        folder: with checkpoints, dictionaries and codes, also in folders inside it.
        new: empty folder to write to.
        options: the choices.
        name: name of the release, for errors.
        convert_checkpoint: the conversion of one checkpoint.
        command: the command that converts, for the preparation.
    Returns:
        Path of each new checkpoint in ``new`` -> its number of parameters, and the content of
        ``preparation.yaml``.
    Raises:
        UserError: if a file is missing, is not what its name says, or does not fit the others.
    """
    files = [Path(at, file) for at, _, names in os.walk(folder) for file in sorted(names)]
    files = sorted(path for path in files if is_wanted(path))
    checkpoints = _checkpoints(folder, files, options.checkpoint, name)
    codes = Path(options.bpe_codes) if options.bpe_codes else _codes(folder, files, name)
    root = Path(os.path.commonpath([path.parent for path in checkpoints + files]))
    languages: tuple[str, str] | None = None
    parameters = {}
    for path in checkpoints:
        shown = f"{name}, {path.relative_to(folder)}"
        converted = convert_file(convert_checkpoint, path, shown)
        found = _languages(converted, options, files, shown)
        if languages is None:
            languages = found
            dictionaries = [_dictionary(folder, files, language, name) for language in found]
        elif languages != found:
            raise UserError(
                f"{shown} translates from {' to '.join(found)}, but another checkpoint from "
                f"{' to '.join(languages)}: choose some with --checkpoint."
            )
        _check_sizes(converted["model"], dictionaries, shown)
        target = new / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        save_checkpoint(converted, str(target))
        parameters[str(path.relative_to(root))] = sum(
            tensor.numel() for tensor in converted["model"].values()
        )
    assert languages is not None
    for language, path in zip(languages, dictionaries):
        shutil.copyfile(path, new / f"dict.{language}.txt")
    return parameters, _write_preparation(new, command, languages, codes, options, name)


def _write_preparation(
    new: Path,
    command: str,
    languages: tuple[str, str],
    codes: Path | None,
    options: ReleaseOptions,
    name: str,
) -> dict[str, Any]:
    """Write ``preparation.yaml`` and the codes beside the dictionaries."""
    if codes is None:
        for path in (new / f"dict.{language}.txt" for language in languages):
            found = [word for word in Vocabulary.load(path).symbols if word.endswith("@@")]
            if found:
                raise UserError(
                    f"{path.name} has sub-words such as '{found[0]}', but {name} has no BPE codes: "
                    "give their file with --bpe-codes."
                )
        subwords: dict[str, Any] = {"method": "none", "files": None}
    else:
        try:
            SubwordNmt(codes)
        except UserError as error:
            raise UserError(
                f"{name}: {codes.name} is not a file of subword-nmt's codes."
            ) from error
        shutil.copyfile(codes, new / CODES)
        subwords = {"method": "subword_nmt", "files": {"source": CODES, "target": CODES}}
    unknown = _NO_LANGUAGES.intersection(languages)
    tokenizer = options.tokenizer or ("none" if unknown else "moses_fairseq")
    more = {"versions": {"convs2s-plugin": __version__}}
    return write_preparation(
        new, command, languages, tokenizer, options.lowercase, subwords, ".", more
    )


def _checkpoints(
    folder: Path, files: list[Path], chosen: Sequence[str] | None, name: str
) -> list[Path]:
    found = [path for path in files if path.suffix == ".pt"]
    if not found:
        raise UserError(f"{name} has no checkpoint: no file ends in .pt.")
    if chosen is None:
        return found
    # The names of an archive start with that of its folder, which need not be given.
    paths = [
        [path for path in found if f"/{path.relative_to(folder)}".endswith(f"/{one}")]
        for one in chosen
    ]
    for one, matching in zip(chosen, paths):
        if len(matching) != 1:
            names = ", ".join(str(path.relative_to(folder)) for path in found)
            raise UserError(
                f"--checkpoint {one} names {len(matching)} checkpoints of {name}; it has {names}."
            )
    return [path for (path,) in paths]


def _codes(folder: Path, files: list[Path], name: str) -> Path | None:
    """The file of BPE codes; None if there is none."""
    found = [path for path in files if _CODES.fullmatch(path.name)]
    if len({digest(path) for path in found}) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found)
        raise UserError(f"{name} has several files of BPE codes: {names}. Give one: --bpe-codes.")
    return found[0] if found else None


def _dictionary(folder: Path, files: list[Path], language: str, name: str) -> Path:
    """The file ``dict.LANGUAGE.txt``."""
    dictionaries = [path for path in files if _DICTIONARY.fullmatch(path.name)]
    found = [path for path in dictionaries if path.name == f"dict.{language}.txt"]
    if not found:
        others = ", ".join(sorted({path.name for path in dictionaries})) or "no dictionary at all"
        raise UserError(
            f"{name} has no dict.{language}.txt, which the checkpoint needs; it has {others}. Give "
            "other languages with --source-lang and --target-lang, or add the file."
        )
    if len({digest(path) for path in found}) > 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found)
        raise UserError(f"{name} has several dictionaries of '{language}': {names}. Keep one.")
    return found[0]


def _languages(
    converted: dict[str, Any], options: ReleaseOptions, files: list[Path], name: str
) -> tuple[str, str]:
    """The languages of a converted checkpoint, which gets those that it does not say."""
    for side, named in zip(_SIDES, _named_languages(files, name)):
        given = getattr(options, f"{side}_lang")
        language = given or getattr(converted["args"], f"{side}_lang", None) or named
        if not isinstance(language, str):
            raise UserError(f"{name} does not say its {side} language: give it with --{side}-lang.")
        setattr(converted["args"], f"{side}_lang", check_name(language, f"{name}: {side} language"))
    return converted["args"].source_lang, converted["args"].target_lang


def _named_languages(files: list[Path], name: str) -> tuple[str | None, str | None]:
    """The languages of dictionaries in a name such as ``wmt14.en-de.fconv-py``, or None."""
    matches = [_DICTIONARY.fullmatch(path.name) for path in files]
    known = {match[1] for match in matches if match}
    pairs = {pair for pair in _PAIR.findall(name) if known.issuperset(pair)}
    return pairs.pop() if len(pairs) == 1 else (None, None)


def _check_sizes(weights: dict[str, Any], dictionaries: list[Path], name: str) -> None:
    """Check that the embedding matrices have the sizes of the dictionaries."""
    for (side, part), path in zip(_SIDES.items(), dictionaries):
        rows, size = len(weights[f"{part}.embed.words.weight"]), len(Vocabulary.load(path))
        if rows != size:
            raise UserError(
                f"{path.name} has {size:,} entries with the special ones, but {name} has "
                f"embeddings of {rows:,} {side} tokens: it is not the dictionary that the model "
                "was trained with."
            )
