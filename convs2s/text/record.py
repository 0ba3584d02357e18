"""Write ``preparation.yaml``, which ``Preparation`` reads."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from .. import __version__
from ..common.output_files import atomic_write
from .packages import installed_version
from .preparation import FILE_NAME, FORMAT, SIDES, digest
from .settings import Settings

# The folder of the binarized data.
DATA = "data-bin"
PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt")
COMMENT = "# Written by `{}`. Programs that prepare raw text for the model read it.\n"


def write_record(
    out: Path,
    settings: Settings,
    size: int | None,
    models: Sequence[str | None],
    counts: dict[str, Any],
) -> dict[str, Any]:
    """Write the file and return its content.

    Args:
        out: folder of the preparation; the binarized data must be there.
        settings: of the preparation.
        size: of the sub-words, or the most entries of a dictionary; None without a limit.
        models: names of the files of sub-words of source and target; None without sub-words.
        counts: of pairs and tokens.
    """
    versions = {name: installed_version(name) for name in PACKAGES}
    subwords = {
        "method": settings.method,
        "size": size,
        "joint": settings.joint,
        "files": dict(zip(SIDES, models)) if settings.method != "none" else None,
    }
    content = {
        **described(
            *(out, settings.languages, settings.tokenizer, settings.lowercase, subwords, DATA)
        ),
        **counts,
        "settings": settings.recorded(),
        "versions": {
            "convs2s-plugin": __version__,
            **{name: version for name, version in versions.items() if version is not None},
        },
    }
    write_content(out, content, "convs2s prepare")
    return content


def described(
    out: Path,
    languages: Sequence[str],
    tokenizer: str,
    lowercase: bool,
    subwords: dict[str, Any],
    data: str,
) -> dict[str, Any]:
    """The part of the content that ``Preparation`` reads.

    Args:
        out: folder of the preparation; the dictionaries must be there.
        languages: source and target.
        tokenizer: a key of ``TOKENIZERS``.
        lowercase: whether all text is in lower case.
        subwords: their method and their files, if any.
        data: folder of the dictionaries, in ``out``.
    """
    files = [(PurePosixPath(data) / f"dict.{language}.txt") for language in languages]
    return {
        "format": FORMAT,
        "languages": dict(zip(SIDES, languages)),
        "lowercase": lowercase,
        "tokenizer": tokenizer,
        "subwords": subwords,
        "data": data,
        "dictionaries": {
            side: {
                "file": str(file),
                "tokens": (out / file).read_bytes().count(b"\n"),
                "sha256": digest(out / file),
            }
            for side, file in zip(SIDES, files)
        },
    }


def write_content(out: Path, content: dict[str, Any], command: str) -> None:
    """Write the file.

    Args:
        out: its folder.
        content: all that it has.
        command: the command that writes it.
    """
    with atomic_write(str(out / FILE_NAME)) as file:
        file.write(COMMENT.format(command))
        yaml.safe_dump(content, file, sort_keys=False, allow_unicode=True)
