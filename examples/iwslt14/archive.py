"""The files of IWSLT'14 German-English: from a folder, from the archive, or downloaded."""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

LANGUAGES = ("de", "en")
TRAIN = "train.tags.de-en"
# In the order in which the test set has them.
TEST_SETS = (
    "IWSLT14.TED.dev2010.de-en",
    "IWSLT14.TEDX.dev2012.de-en",
    "IWSLT14.TED.tst2010.de-en",
    "IWSLT14.TED.tst2011.de-en",
    "IWSLT14.TED.tst2012.de-en",
)
FILES = (
    *(f"{TRAIN}.{language}" for language in LANGUAGES),
    *(f"{name}.{language}.xml" for name in TEST_SETS for language in LANGUAGES),
)
ADDRESS = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
CHUNK = 1 << 20


def download(address: str, archive: Path, progress: Callable[[str], None]) -> None:
    """Download the archive; the file exists only once it is complete."""
    part = archive.with_name(f"{archive.name}.part")
    received = 0
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, open(part, "wb") as file:
            size = int(answer.headers.get("Content-Length") or 0)
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                received += len(chunk)
                total = f" of {size / 1e6:.1f}" if size else ""
                progress(f"  {archive.name}: {received / 1e6:.1f}{total} MB")
        if size and received != size:
            raise OSError(f"it ended after {received} of {size} bytes")
        os.replace(part, archive)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        sys.exit(
            f"{address} cannot be downloaded to {archive} ({error}): use --address with another "
            "address, or --archive with a copy of the archive."
        )
    finally:
        part.unlink(missing_ok=True)


def find_files(archive: Path, unpacked: Path) -> dict[str, Path]:
    """Find all files of the dataset; exit if there is one missing.

    Args:
        archive: an archive, or a folder that holds the files or a folder de-en with them.
        unpacked: the folder to unpack an archive to.

    Returns:
        the path of each name in FILES.
    """
    folder = archive
    if not archive.is_dir():
        folder = unpacked
        unpack(archive, unpacked)
    elif not (archive / FILES[0]).exists() and (archive / "de-en").is_dir():
        folder = archive / "de-en"
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        sys.exit(
            f"{archive} has no {missing[0]}"
            + (f", and {len(missing) - 1} more files are missing" if missing[1:] else "")
            + f". It must have {', '.join(FILES)}."
        )
    return {name: folder / name for name in FILES}


def unpack(archive: Path, folder: Path) -> None:
    """Copy the files of the dataset out of the archive, and nothing else.

    No path of the archive is used. A path that leads out of the archive's folder is refused
    nevertheless: the published archive has none.
    """
    try:
        with tarfile.open(archive) as members:
            for member in members:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    sys.exit(
                        f"{archive} has a member {member.name!r}, which leads out of the folder: "
                        "this is not the published archive, and nothing of it is used."
                    )
                if path.name not in FILES:
                    continue
                if not member.isfile():
                    sys.exit(f"{member.name!r} in {archive} is no plain file.")
                if (folder / path.name).exists():
                    sys.exit(f"{archive} has more than one file {path.name}.")
                with members.extractfile(member) as source, open(folder / path.name, "wb") as to:
                    shutil.copyfileobj(source, to, CHUNK)
    except FileNotFoundError:
        sys.exit(
            f"There is no {archive}: use --download, or --archive with the archive or a folder "
            "with its files."
        )
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        sys.exit(f"{archive} cannot be unpacked ({error}): it may be incomplete.")
