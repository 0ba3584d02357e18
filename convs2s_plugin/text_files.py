"""Reading text files line by line, and writing them atomically.

Only a line feed ends a line, so that no other character shifts the lines of one file against those
of a parallel one. Needs neither torch nor fairseq.
"""

import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TextIO

from .errors import UserError

EXCERPT_LENGTH = 60


def excerpt(text: str) -> str:
    """Quote text for an error message, shortened to EXCERPT_LENGTH characters."""
    text = text.strip()
    return f"'{text}'" if len(text) <= EXCERPT_LENGTH else f"'{text[:EXCERPT_LENGTH]}...'"


def line_error(path: str, number: int, message: str) -> UserError:
    """An error about one line of a file.

    Args:
        path: the file.
        number: line number, counted from 1.
        message: what was found and what is allowed, without the final period.
    """
    return UserError(f"{path}, line {number}: {message}.")


def read_lines(path: str) -> Iterator[str]:
    """Read the lines of a file, line ends included.

    Args:
        path: a text file in UTF-8; it is unpacked if its name ends in ``.gz``.
    Raises:
        UserError: if the file cannot be read or is not UTF-8.
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
            "convert the file (`iconv -f latin1 -t utf-8`) or drop the invalid bytes "
            "(`iconv -c -t utf-8`)",
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be read beyond line {number}: {reason}.") from error


def read_parallel(paths: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Read parallel files line by line.

    Args:
        paths: text files, see ``read_lines``.
    Returns:
        The line number, counted from 1, and the line of each file.
    Raises:
        UserError: if a file cannot be read, or has fewer lines than another.
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


def check_writable(path: str) -> None:
    """Check that a file can be written, before its content is computed.

    Raises:
        UserError: if no plain text file can be written to ``path``.
    """
    folder = os.path.dirname(path) or "."
    if path.endswith(".gz"):
        raise UserError(f"{path} cannot be written: the output is not compressed, leave out .gz.")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path} cannot be written: it exists and is not a plain file.")
    if not os.path.isdir(folder):
        raise UserError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {folder} is not writable.")


@contextmanager
def atomic_write(path: str) -> Iterator[TextIO]:
    """Open a text file that gets its name only when it is complete.

    After an error, nothing is left behind, and an existing file is unchanged.

    Args:
        path: the file; an existing one is replaced.
    Raises:
        UserError: if the file cannot be written.
    """
    check_writable(path)
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
