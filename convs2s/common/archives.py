"""Downloading and unpacking archives."""

import http.client
import lzma
import re
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

from .compression import FIRST_BYTES
from .errors import UserError
from .progress import Progress
from .text_files import excerpt

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_ARCHIVE_NAME = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz)$", re.IGNORECASE)
_COMPRESSIONS = (".gz", ".bz2", ".xz")
# Seconds without an answer.
TIMEOUT = 60
CHUNK = 1 << 20


def is_address(text: str) -> bool:
    """Whether a text is an http(s) address rather than a path."""
    return ADDRESS.match(text) is not None


def is_archive_name(name: str) -> bool:
    """Whether the name or the address of a file is that of a tar archive."""
    return _ARCHIVE_NAME.search(name) is not None


def is_archive(path: Path, name: str) -> bool:
    """Whether a file is a tar archive: its name or its first bytes say so.

    Args:
        path: the file.
        name: its name, or the address that it comes from.
    """
    with path.open("rb") as file:
        first = file.read(8)
    compressions = (suffix for start, suffix in FIRST_BYTES.items() if first.startswith(start))
    return next(compressions, None) in _COMPRESSIONS or is_archive_name(name)


def download(address: str, path: Path) -> None:
    """Download a file, and show the progress.

    Args:
        address: http or https.
        path: the file to write.
    Raises:
        UserError: if the address does not answer, or the answer is incomplete.
        OSError: if the file cannot be written.
    """
    try:
        answer = urllib.request.urlopen(address, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        raise UserError(
            f"{address} cannot be downloaded: the server answers {error.code} {error.reason}."
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _no_answer(address, error) from error
    with answer, path.open("wb") as file:
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        with Progress(unit="B", desc="Downloading", total=total, scale=True) as shown:
            size = 0
            while chunk := _read(answer, address):
                size += file.write(chunk)
                shown.update(len(chunk))
    if total is not None and size < total:
        raise UserError(
            f"The download of {address} ended after {size:,} of {total:,} bytes: try again."
        )


def _read(answer: http.client.HTTPResponse, address: str) -> bytes:
    try:
        return answer.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _no_answer(address, error) from error


def _no_answer(address: str, error: Exception) -> UserError:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return UserError(
        f"{address} cannot be downloaded: {text}. Check the address and the connection, or "
        "download the file in another way and give its path."
    )


def unpack(path: Path, folder: Path, is_wanted: Callable[[PurePosixPath], bool], name: str) -> None:
    """Unpack the wanted files of a tar archive, compressed or not.

    Every member is checked, wanted or not, so that an archive with a dangerous member is refused as
    a whole.

    Args:
        path: the archive.
        folder: the folder to unpack it to.
        is_wanted: whether to unpack the file with this name.
        name: name of the archive, for errors.
    Raises:
        UserError: if the archive is damaged, or a member lies outside the folder or is a link or a
            device.
        OSError: if a file cannot be written.
    """
    try:
        with tarfile.open(path, mode="r:*") as archive:
            for member in archive:
                _check(member, name)
                if member.isfile() and is_wanted(PurePosixPath(member.name)):
                    content = archive.extractfile(member)
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file, CHUNK)  # type: ignore[arg-type]
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, tarfile.TarError):
            raise
        # Of a file that is no archive, tarfile says in several lines what each format lacks.
        reason = str(error) if "\n" not in str(error) else "its format is none of tar's"
        raise UserError(
            f"{name} is not a complete tar archive: {reason}. If copying or downloading it was "
            "interrupted, get it again."
        ) from error


def _check(member: tarfile.TarInfo, archive: str) -> None:
    """Check that a member can be unpacked safely."""
    # A path of Windows is split at both kinds of slashes.
    path = PureWindowsPath(member.name)
    if path.anchor or ".." in path.parts:
        problem = "lies outside the folder of the archive"
    elif member.issym() or member.islnk():
        problem = "is a link"
    elif not (member.isfile() or member.isdir()):
        problem = "is a device or a pipe"
    else:
        return
    raise UserError(f"{archive} is not unpacked: its member {excerpt(member.name)} {problem}.")
