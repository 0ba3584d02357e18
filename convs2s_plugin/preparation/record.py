"""Write ``preparation.yaml``, which ``Preparation`` reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from ..output_files import atomic_write
from ..version import __version__
from .packages import installed_version
from .preparation import FILE_NAME, FORMAT, SIDES, digest
from .settings import Settings

# The folder of the binarized data.
DATA = "data-bin"
PACKAGES = ("fairseq", "ve-fairseq", "sacremoses", "sentencepiece", "subword-nmt")
COMMENT = "# Written by `convs2s prepare`. Programs that prepare raw text for the model read it.\n"


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
    files = [f"{DATA}/dict.{language}.txt" for language in settings.languages]
    versions = {name: installed_version(name) for name in PACKAGES}
    content = {
        "format": FORMAT,
        "languages": dict(zip(SIDES, settings.languages)),
        "lowercase": settings.lowercase,
        "tokenizer": settings.tokenizer,
        "subwords": {
            "method": settings.method,
            "size": size,
            "joint": settings.joint,
            "files": dict(zip(SIDES, models)) if settings.method != "none" else None,
        },
        "data": DATA,
        "dictionaries": {
            side: {
                "file": file,
                "tokens": (out / file).read_bytes().count(b"\n"),
                "sha256": digest(out / file),
            }
            for side, file in zip(SIDES, files)
        },
        **counts,
        "settings": settings.recorded(),
        "versions": {
            "convs2s-plugin": __version__,
            **{name: version for name, version in versions.items() if version is not None},
        },
    }
    with atomic_write(str(out / FILE_NAME)) as file:
        file.write(COMMENT)
        yaml.safe_dump(content, file, sort_keys=False, allow_unicode=True)
    return content
