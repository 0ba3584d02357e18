"""Text files: read line by line, written whole or not at all.

A line ends at a line feed and nowhere else, so that no other character shifts the lines of one
file against another's. Knows neither torch nor fairseq.
"""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TextIO

from .errors import UserError

SHOWN = 60


def excerpt(text: str) -> str:
    """A piece of input in quotes, for messages: not longer than a person wants to read."""
    text = text.strip()
    return f"'{text}'" if len(text) <= SHOWN else f"'{text[:SHOWN]}...'"


def line_error(path: str, number: int, message: str) -> UserError:
    """A refusal of one line of a file.

    Args:
        path: the file.
        number: the line, counted from 1.
        message: what was found and what is allowed, without the closing full stop.
    """
    return UserError(f"{path}, line {number}: {message}.")


def read_lines(path: str) -> Iterator[str]:
    """The lines of a file, their ends included; a name ending in ``.gz`` is unpacked.

    Args:
        path: a text file in UTF-8.
    Raises:
        UserError: where the file cannot be read or is not UTF-8.
    """
    number = 0
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            for line in file:
                number += 1
                yield line.decode("utf-8")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except UnicodeDecodeError as error:
        raise line_error(
            *(path, number),
            f"byte 0x{error.object[error.start]:02x} at offset {error.start} is not valid UTF-8; "
            "convert the file (`iconv -f latin1 -t utf-8`) or drop what is broken "
            "(`iconv -c -t utf-8`)",
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read beyond line {number}: {reason}.") from error


def read_parallel(paths: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The lines of several files side by side.

    Args:
        paths: text files as ``read_lines`` takes them.
    Returns:
        The number of the line, counted from 1, and that line of each file.
    Raises:
        UserError: where a file cannot be read, or ends before another one.
    """
    for number, lines in enumerate(zip_longest(*map(read_lines, paths)), start=1):
        if None in lines:
            longer = next(path for path, line in zip(paths, lines) if line is not None)
            shorter = paths[lines.index(None)]
            raise line_error(
                *(longer, number),
                f"{shorter} has no such line, it ends after {number - 1}; "
                "both must have the same number of lines",
            )
        yield number, lines


def refuse_unwritable(path: str) -> None:
    """Find out before the work is done that its result cannot be written.

    Raises:
        UserError: where ``path`` is no place for a plain text file.
    """
    folder = os.path.dirname(path) or "."
    if path.endswith(".gz"):
        raise UserError(f"{path} cannot be written: plain text is, leave out .gz.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path} cannot be written: it exists and is not a plain file.")
    if not os.path.isdir(folder):
        raise UserError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {folder} is not writable.")


@contextmanager
def write_whole(path: str) -> Iterator[TextIO]:
    """Open a text file that appears under its name only when all of it is written.

    Args:
        path: the file; one that is there already is replaced.
    Raises:
        UserError: where it cannot be written. As after any other error, nothing is left behind.
    """
    refuse_unwritable(path)
    partial = f"{path}.partial"
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            yield file
        os.replace(partial, path)
    except BaseException as error:
        if os.path.exists(partial):
            os.remove(partial)
        if isinstance(error, OSError):
            raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
        raise
