"""Reading the lines of a file, or of one of several shards of it, and saying how many are left."""

import os
import stat
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

from .compression import ERRORS, Unpacked
from .errors import UserError
from .plain_files import MEGABYTE
from .text_files import decode_lines, open_text


class Shard(NamedTuple):
    """One of several shards of a text; together they have each of its lines once.

    Attributes:
        number: counted from 0.
        total: the number of shards.
    """

    number: int = 0
    total: int = 1


WHOLE = Shard()


def make_shard(number: int, total: int) -> Shard:
    """The shard that ``--shard-id`` and ``--num-shards`` name.

    Raises:
        UserError: if there is no such shard.
    """
    if number >= total:
        raise UserError(
            f"--shard-id is {number}, but must be less than --num-shards, {total}: shards are "
            "counted from 0."
        )
    return Shard(number, total)


class ShardReader:
    """Reads the lines of a shard, line ends included.

    The shards of a file are contiguous, and have about the same number of bytes.

    Args:
        path: a text file in UTF-8. One that is compressed has only one shard.
        shard: the shard.
        is_counted: whether ``lines_before`` is needed: the file is read up to the shard for it.
    Attributes:
        lines_before: the number of lines before the shard.
    Raises:
        UserError: if the file cannot be read or, on reading, is not UTF-8; if it is compressed, and
            larger than text can be; or if it has no shards, because it is not a plain file or is
            compressed.
    """

    def __init__(self, path: str, shard: Shard = WHOLE, is_counted: bool = False):
        self._path = path
        self._name = path
        self._start = self.lines_before = 0
        # Bytes of the shard; None for all of them.
        self._length: int | None = None
        self._size: int | None = None
        self._total: int | None = None
        self._lines = self._bytes = 0
        if shard.total > 1:
            self._name = f"{path} (shard {shard.number} of {shard.total})"
            with open_text(path) as file:
                size = _size(file)
                if size is None:
                    raise UserError(
                        f"{path} has no shards, because it is compressed or not a plain file: "
                        "unpack it, or write it to a file."
                    )
                bounds = [
                    size * number // shard.total for number in (shard.number, shard.number + 1)
                ]
                self._start, end = (_line_start(file, bound) for bound in bounds)
                self._length = end - self._start
                if is_counted:
                    self.lines_before = _count_lines(file, self._start)
        elif os.path.isfile(path):
            with open_text(path) as file:
                # A file that unpacks to more than text can have is refused before the long work.
                if isinstance(file, Unpacked):
                    self._total = _count_unpacked(file)

    def __iter__(self) -> Iterator[str]:
        with open_text(self._path) as file:
            self._size = _size(file) if self._length is None else self._length
            if self._start:
                file.seek(self._start)
            lines = _Counted(file, self._length)
            for line in decode_lines(cast(IO[bytes], lines), self._name, at_start=not self._start):
                self._lines, self._bytes = self._lines + 1, lines.position
                yield line

    @property
    def expected(self) -> int | None:
        """The number of lines, estimated from those read so far; None if it cannot be estimated."""
        if self._size is None or not self._bytes:
            return self._total
        return round(self._lines * self._size / self._bytes)


class _Counted:
    """The lines of an open file that begin within its next bytes.

    Args:
        file: the file.
        length: the number of bytes; None for all.
    Attributes:
        position: the number of bytes that were read.
    """

    def __init__(self, file: IO[bytes], length: int | None):
        self._file, self._length = file, length
        self.position = 0

    def readline(self, size: int) -> bytes:
        """Read a line, or its beginning of some bytes."""
        if self._length is not None and self.position >= self._length:
            return b""
        line = self._file.readline(size)
        self.position += len(line)
        return line


def _size(file: IO[bytes]) -> int | None:
    """The number of bytes of an open file; None if it is compressed or a pipe."""
    if isinstance(file, Unpacked):
        return None
    status = os.fstat(file.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _line_start(file: IO[bytes], position: int) -> int:
    """The beginning of the first line that begins at or after a position."""
    if position == 0:
        return 0
    file.seek(position - 1)
    while (part := file.readline(MEGABYTE)) and not part.endswith(b"\n"):
        pass
    return file.tell()


def _count_lines(file: IO[bytes], end: int) -> int:
    """The number of line ends before a position."""
    count = 0
    file.seek(0)
    while end > 0 and (part := file.read(min(end, MEGABYTE))):
        count += part.count(b"\n")
        end -= len(part)
    return count


def _count_unpacked(file: IO[bytes]) -> int | None:
    """The number of line ends of a compressed file; None if it is damaged.

    Raises:
        UserError: if it is larger than text can be.
    """
    try:
        return sum(part.count(b"\n") for part in iter(lambda: file.read(MEGABYTE), b""))
    except ERRORS:
        # Reading it will name the line.
        return None
