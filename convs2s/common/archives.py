"""Downloading and unpacking archives."""

import contextlib
import http.client
import lzma
import queue
import re
import shutil
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from .compression import FIRST_BYTES, OPENERS, Unpacked, largest_size
from .errors import UserError
from .lines import excerpt
from .names import stays_inside
from .plain_files import open_plain
from .progress import show_progress

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
_ARCHIVE_NAME = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz)$", re.IGNORECASE)
_COMPRESSIONS = (".gz", ".bz2", ".xz")
# Seconds without an answer, or with fewer bytes per second than these.
TIMEOUT = 20
SLOWEST = 1000
CHUNK = 1 << 20
# The most bytes of a download, and members of an archive; a release has a few dozen.
MAX_DOWNLOAD = 50 * 10**9
MAX_MEMBERS = 10_000
# What to do if a server does not answer.
OTHERWISE = "download the file in another way and give its path"
# What an archive may unpack to, as for ``largest_size``.
LIMIT = (100 * 2**20, 100)
# Errors of damaged archives; one that has a header before each header is read recursively.
DAMAGED = (
    EOFError,
    OSError,
    RecursionError,
    lzma.LZMAError,
    tarfile.TarError,
    zlib.error,
)


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
    with open_plain(path) as file:
        first = file.read(8)
    compressions = (suffix for start, suffix in FIRST_BYTES.items() if first.startswith(start))
    return next(compressions, None) in _COMPRESSIONS or is_archive_name(name)


def download(
    address: str, path: Path, most: int = MAX_DOWNLOAD, otherwise: str = OTHERWISE
) -> None:
    """Download a file, and show the progress.

    Args:
        address: http, https or file.
        path: the file to write.
        most: the most bytes that it may have.
        otherwise: what to do if the address does not answer, for the error.
    Raises:
        UserError: if the address does not answer, or too slowly, or the answer is incomplete.
        OSError: if the file cannot be written.
    """
    with _Answer(address, otherwise) as answer, path.open("wb") as file:
        total = answer.length
        with show_progress(unit="B", desc="Downloading", total=total, scale=True) as shown:
            size = 0
            for chunk in answer.chunks():
                size += file.write(chunk)
                shown.update(len(chunk))
                if size > most:
                    raise UserError(
                        f"{address} is not downloaded: it has more than {most:,} bytes."
                    )
    if total is not None and size < total:
        raise UserError(
            f"The download of {address} ended after {size:,} of {total:,} bytes: try again."
        )


class _Answer:
    """The answer of a server, read in a thread of its own.

    A server that sends a byte now and then keeps every wait for it short. Here, it must send the
    beginning of its answer within ``TIMEOUT`` seconds, and then ``SLOWEST`` bytes per second.
    """

    def __init__(self, address: str, otherwise: str):
        self.address, self.otherwise = address, otherwise
        self._stopped = False
        self._received: queue.Queue[Any] = queue.Queue(maxsize=8)

    def __enter__(self) -> "_Answer":
        threading.Thread(target=self._read, daemon=True).start()
        end = time.monotonic() + TIMEOUT
        self.length: int | None = self._next(end, f"no answer for {TIMEOUT} seconds")
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped = True

    def chunks(self) -> Iterator[bytes]:
        """The content in parts."""
        slow = f"less than {SLOWEST:,} bytes per second for {TIMEOUT} seconds"
        start, size = time.monotonic(), 0
        while chunk := self._next(start + TIMEOUT, slow):
            yield chunk
            size += len(chunk)
            if size >= SLOWEST * TIMEOUT:
                start, size = time.monotonic(), 0

    def _next(self, end: float, reason: str) -> Any:
        """What the thread has read next; after ``end``, the reason is an error."""
        try:
            found = self._received.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise self._failure(reason) from None
        if isinstance(found, Exception):
            raise found
        return found

    def _read(self) -> None:
        """Read the length and the chunks of the answer, an empty one at the end."""
        try:
            with urllib.request.urlopen(self.address, timeout=TIMEOUT) as answer:
                length = answer.headers.get("Content-Length", "")
                self._put(int(length) if re.fullmatch(r"\d{1,18}", length) else None)
                while not self._stopped:
                    chunk = answer.read1(CHUNK)
                    self._put(chunk)
                    if not chunk:
                        return
        except urllib.error.HTTPError as error:
            self._put(self._failure(f"the server answers {error.code} {error.reason}"))
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
            self._put(self._failure(text))

    def _put(self, found: Any) -> None:
        """Hand over what was read, unless nobody is waiting for it any longer."""
        while not self._stopped:
            with contextlib.suppress(queue.Full):
                return self._received.put(found, timeout=1)

    def _failure(self, reason: str) -> UserError:
        return UserError(
            f"{self.address} cannot be downloaded: {reason}. Check the address and the "
            f"connection, or {self.otherwise}."
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
        UserError: if the archive is damaged, unpacks to much more than its size, or a member lies
            outside the folder or is a link or a device.
        OSError: if a file cannot be written.
    """
    try:
        with _opened(path, name) as archive:
            packed = path.stat().st_size
            size = number = 0
            while member := archive.next():
                # Otherwise they are kept.
                archive.members.clear()  # type: ignore[attr-defined]
                _check(member, name)
                size, number = size + member.size, number + 1
                if number > MAX_MEMBERS or size > largest_size(packed, LIMIT):
                    raise UserError(
                        f"{name} is not unpacked: its {packed:,} bytes have more than "
                        f"{MAX_MEMBERS:,} members, or members of {size:,} bytes, which no model "
                        "has."
                    )
                if member.isfile() and is_wanted(PurePosixPath(member.name)):
                    content = archive.extractfile(member)
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with target.open("wb") as file:
                        shutil.copyfileobj(content, file, CHUNK)  # type: ignore[arg-type]
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, tarfile.TarError):
            raise
        # For a file that is not an archive, tarfile says in several lines what each format lacks.
        reason = str(error) if "\n" not in str(error) else "it is not in a format of tar"
        raise UserError(
            f"{name} is not a complete tar archive: {reason}. If copying or downloading it was "
            "interrupted, get it again."
        ) from error


@contextmanager
def _opened(path: Path, name: str) -> Iterator[tarfile.TarFile]:
    """A tar archive, which is unpacked while it is read, up to a limit."""
    with ExitStack() as files:
        file: Any = files.enter_context(open_plain(path))
        first = file.peek(8)
        kinds = (suffix for start, suffix in FIRST_BYTES.items() if first.startswith(start))
        kind = next(kinds, None)
        if kind in _COMPRESSIONS:
            file = files.enter_context(OPENERS[kind](file))
        # Headers say how long they are, and are read at once.
        limited = Unpacked(file, name, path.stat().st_size, LIMIT, CHUNK)
        yield files.enter_context(tarfile.open(fileobj=cast(IO[bytes], limited), mode="r:"))


def _check(member: tarfile.TarInfo, archive: str) -> None:
    """Check that a member can be unpacked safely."""
    if not stays_inside(member.name):
        problem = "lies outside the folder of the archive"
    elif member.issym() or member.islnk():
        problem = "is a link"
    elif not (member.isfile() or member.isdir()):
        problem = "is a device or a pipe"
    elif member.size < 0:
        problem = "has a negative size"
    else:
        return
    raise UserError(f"{archive} is not unpacked: its member {excerpt(member.name)} {problem}.")
