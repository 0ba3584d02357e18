"""Reading text files, as a whole or line by line.

Only a line feed ends a line, so no other character can shift the lines of a file relative to a
parallel one; see ``lines``.
"""

import codecs
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice, zip_longest
from typing import IO

from .compression import ERRORS, open_binary
from .errors import UserError
from .lines import as_sentence
from .plain_files import MEGABYTE, check_can_exist

# The longest line, and the longest text that is read as a whole, in bytes.
MAX_LINE = 16 * MEGABYTE
MAX_TEXT = 256 * MEGABYTE
BYTE_ORDER_MARK = "\ufeff"
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def line_error(path: str, number: int, message: str) -> UserError:
    """An error about one line of a file.

    Args:
        path: the file.
        number: line number, counted from 1.
        message: what was found and what is allowed, without the final period.
    """
    return UserError(f"{path}, line {number}: {message}.")


def read_text(path: str) -> str:
    """Read a whole file.

    Args:
        path: a text file, see ``read_lines``.
    Raises:
        UserError: if the file cannot be read, is not UTF-8, or has more than ``MAX_TEXT`` bytes.
    """
    size, lines = 0, []
    for line in read_lines(path):
        size += len(line)
        lines.append(line)
        if size > MAX_TEXT:
            raise UserError(f"{path} has more than {MAX_TEXT // MEGABYTE} MB of text.")
    return "".join(lines)


def read_lines(path: str) -> Iterator[str]:
    """Read the lines of a file, line ends included.

    Args:
        path: a text file in UTF-8; it is unpacked if it is compressed (.gz, .bz2, .xz, .zst).
    Raises:
        UserError: if the file cannot be read, is not UTF-8, or has a line of more than ``MAX_LINE``
            bytes.
    """
    with open_text(path) as file:
        yield from decode_lines(file, path)


@contextmanager
def open_text(path: str) -> Iterator[IO[bytes]]:
    """Open a text file for ``decode_lines``.

    Args:
        path: the file; it is unpacked if it is compressed (.gz, .bz2, .xz, .zst).
    Raises:
        UserError: if it cannot be read.
    """
    check_can_exist(path)
    try:
        with open_binary(path) as file:
            yield file
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_sentences(path: str) -> Iterator[str]:
    """Read the lines of a file as sentences; see ``as_sentence``.

    Args:
        path: a text file, see ``read_lines``.
    Raises:
        UserError: if the file cannot be read or is not UTF-8.
    """
    return map(as_sentence, read_lines(path))


def read_parts(path: str, parts: Iterable[int], size: int | None) -> Iterator[tuple[int, str]]:
    """Read some parts of a file, and skip the others.

    Args:
        path: a text file, see ``read_lines``.
        parts: numbers of parts in ascending order, counted from 0.
        size: number of lines in a part (None: all).
    Returns:
        The line number, counted from 1, and the sentence; see ``as_sentence``.
    Raises:
        UserError: if the file cannot be read or is not UTF-8.
    """
    read = 0
    with open_text(path) as file:
        for part in parts:
            start = part * (size or 0)
            deque(islice(_raw_lines(file, path, read), start - read), maxlen=0)
            lines = islice(decode_lines(file, path, before=start), size)
            yield from enumerate(map(as_sentence, lines), start + 1)
            read = start + (size or 0)


def count_lines(paths: Sequence[str]) -> int:
    """The number of lines of parallel files.

    Args:
        paths: text files, see ``read_lines``.
    Raises:
        UserError: if a file cannot be read, or has fewer lines than another.
    """
    number = 0
    with ExitStack() as stack:
        files = [_raw_lines(stack.enter_context(open_text(path)), path) for path in paths]
        for lines in zip_longest(*files):
            check_parallel(paths, lines, number)
            number += 1
    return number


def _raw_lines(file: IO[bytes], name: str, before: int = 0) -> Iterator[bytes]:
    """The lines of an open file as bytes; see ``decode_lines``."""
    number = before
    try:
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise line_error(
                    name,
                    number,
                    f"it has more than {MAX_LINE // MEGABYTE} MB, and is not a sentence",
                )
            yield line
    except ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{name} cannot be read beyond line {number}: {reason}.") from error


def decode_lines(
    file: IO[bytes],
    name: str,
    errors: str = "strict",
    at_start: bool = True,
    before: int = 0,
) -> Iterator[str]:
    """Decode the lines of an open file, with line ends, but without a byte order mark.

    Args:
        file: a file that was opened in binary mode.
        name: its name, for errors.
        errors: what to do with invalid bytes, as for ``bytes.decode`` ("strict": raise).
        at_start: whether it is read from its beginning, where a byte order mark may be.
        before: the number of lines before, which are counted in errors.
    Raises:
        UserError: if it cannot be read, is not UTF-8, or has a line of more than ``MAX_LINE``
            bytes.
    """
    try:
        for number, line in enumerate(_raw_lines(file, name, before), before + 1):
            text = line.decode("utf-8", errors)
            # UTF-16 without a byte order mark may be valid UTF-8.
            if errors == "strict" and number == 1 and at_start and "\0" in text:
                raise line_error(
                    name,
                    number,
                    f"there is a NUL byte at offset {line.index(0)}, as in UTF-16 and in files "
                    f"other than text; convert the file (`iconv -f {_encoding(line)} -t utf-8`) or "
                    "drop these bytes (`tr -d '\\000'`)",
                )
            # Some editors write this mark in UTF-8, which would make the first word another one.
            yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 and at_start else text
    except UnicodeDecodeError as error:
        encoding = _encoding(line) if number == 1 else "latin1"
        raise line_error(
            name,
            number,
            f"byte 0x{error.object[error.start]:02x} at offset {error.start} is not valid UTF-8; "
            f"convert the file (`iconv -f {encoding} -t utf-8`) or drop the invalid bytes "
            "(`iconv -c -t utf-8`)",
        ) from error


def _encoding(line: bytes) -> str:
    """The probable encoding of a file that is not UTF-8, judged by its first line."""
    if line.startswith(UTF_16_MARKS):
        return "utf-16"
    if b"\0" in line:
        return "utf-16be" if line.startswith(b"\0") else "utf-16le"
    return "latin1"


def read_parallel(paths: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Read parallel files line by line.

    Args:
        paths: text files, see ``read_lines``.
    Returns:
        The line number, counted from 1, and the sentence of each file.
    Raises:
        UserError: if a file cannot be read, or has fewer lines than another.
    """
    for number, lines in enumerate(zip_longest(*map(read_sentences, paths)), start=1):
        check_parallel(paths, lines, number - 1)
        yield number, lines


def check_parallel(paths: Sequence[str], lines: Sequence[object], before: int) -> None:
    """Check that all parallel files have a line, or none has.

    Args:
        paths: the files.
        lines: a line of each, or None for those that have ended.
        before: the number of lines before.
    Raises:
        UserError: if one file has ended and another has not.
    """
    if None in lines:
        longer = next(path for path, line in zip(paths, lines) if line is not None)
        raise line_error(
            longer,
            before + 1,
            f"{paths[[*lines].index(None)]} has no such line: it ends after {before}; both "
            "must have the same number of lines",
        )
