"""Open files that may be compressed."""

import bz2
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import IO, Any, cast

from .errors import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OPENERS: dict[str, Callable[[Any], IO[bytes]]] = {
    ".gz": lambda file: cast(IO[bytes], gzip.open(file)),
    ".bz2": lambda file: bz2.open(file),
    ".xz": lambda file: lzma.open(file),
    ".zst": lambda file: cast(IO[bytes], zstd.open(file)),
}
# Suffix -> program that unpacks such a file.
UNREADABLE = {
    ".lz4": "lz4 -d",
    ".lzma": "unlzma",
    ".lzo": "lzop -d",
    ".Z": "uncompress",
    ".zip": "unzip",
    ".7z": "7z x",
    ".rar": "unrar x",
    ".tar": "tar xf",
    ".tgz": "tar xf",
}
# First bytes of a file -> suffix that it should have.
FIRST_BYTES = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"\x04\x22\x4d\x18": ".lz4",
    b"PK\x03\x04": ".zip",
    b"7z\xbc\xaf\x27\x1c": ".7z",
}
# Errors of files that are damaged or have the wrong suffix.
ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError)


# What a compressed text may unpack to: this many bytes, and this many times its size. Text is
# compressed to about a tenth of its size, and one line that is repeated to a thousandth.
TEXT_LIMIT = (10 * 2**20, 50)


def largest_size(packed: int, limit: tuple[int, int]) -> int:
    """The most bytes that a file may unpack to.

    Args:
        packed: its size.
        limit: some bytes, and a factor for its size.
    """
    return limit[0] + limit[1] * packed


class Unpacked:
    """A file that is unpacked while it is read, up to a limit.

    Args:
        file: reads what is unpacked.
        path: its path, for the error.
        size: its size in bytes, packed.
        limit: as for ``largest_size``.
        largest_read: the most bytes that may be asked for at a time; None for any number.
    Raises:
        UserError: by its methods, if the limit is reached.
    """

    def __init__(
        self,
        file: IO[bytes],
        path: str,
        size: int,
        limit: tuple[int, int] = TEXT_LIMIT,
        largest_read: int | None = None,
    ):
        self._file, self._path, self._size = file, path, size
        self._limit = largest_size(size, limit)
        self._largest_read = largest_read
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read some bytes, or all."""
        if self._largest_read is not None and not 0 <= size <= self._largest_read:
            raise UserError(
                f"{self._path} is not unpacked: one of its entries has a header that is too large."
            )
        left = self._limit + 1 - self._position
        return self._counted(self._file.read(left if size < 0 else min(size, left)))

    def readline(self, size: int = -1) -> bytes:
        """Read a line, or its beginning of some bytes."""
        left = self._limit + 1 - self._position
        return self._counted(self._file.readline(left if size < 0 else min(size, left)))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def seek(self, position: int) -> int:
        """Go to a position, counted from the beginning."""
        self._check(position)
        self._position = self._file.seek(position)
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def _counted(self, read: bytes) -> bytes:
        self._position += len(read)
        self._check(self._position)
        return read

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise UserError(
                f"{self._path} is not unpacked: its {self._size:,} bytes become more than "
                f"{self._limit:,}, which no text and no model needs."
            )


def without_compression(name: str) -> str:
    """A file name without the suffix of its compression."""
    return name.removesuffix(suffix) if (suffix := PurePath(name).suffix) in OPENERS else name


def check_readable(path: str, suffix: str | None = None) -> None:
    """Check that a file is not compressed in a way that is not read here.

    Args:
        path: the file, which need not exist.
        suffix: suffix of its compression; None for that of its name.
    Raises:
        UserError: if it is, or if its name is that of an archive.
    """
    suffix = suffix or PurePath(path).suffix
    if PurePath(without_compression(path)).suffix == ".tar":
        suffix = ".tar"
    if suffix in UNREADABLE:
        raise UserError(
            f"{path} is a {suffix} file, which is not read here: unpack it with "
            f"`{UNREADABLE[suffix]}` (plain text, .gz, .bz2, .xz and .zst are read)."
        )


@contextmanager
def open_binary(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading and unpack it if it is compressed (.gz, .bz2, .xz, .zst).

    Its first bytes or its suffix say so. It is opened once, so it may be a pipe.

    Raises:
        UserError: if it is compressed in another way, or an archive.
        OSError: if it cannot be opened.
    """
    with ExitStack() as files:
        file = files.enter_context(open(path, "rb"))
        first = file.peek(8)
        suffix = PurePath(path).suffix
        for start, kind in FIRST_BYTES.items():
            if first.startswith(start):
                suffix = kind
        check_readable(path, suffix)
        opener = OPENERS.get(suffix)
        if opener is None:
            yield file
        else:
            unpacked = files.enter_context(opener(file))
            yield cast(IO[bytes], Unpacked(unpacked, path, os.fstat(file.fileno()).st_size))
