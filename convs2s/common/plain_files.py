"""Opening files that are read as a whole: plain files only, of limited size.

A pipe may never end, or never begin, and a device such as /dev/zero has no end. Text that is read
line by line may come from a pipe; ``text_files`` reads it.
"""

import os
import stat
from typing import BinaryIO

from .errors import UserError

MEGABYTE = 2**20


def check_plain(path: str | os.PathLike[str], what: str = "a file that is read as a whole") -> None:
    """Check that a path, if it exists and is not a folder, is a plain file, or /dev/null.

    Args:
        path: the path.
        what: what it must be, for the error.
    Raises:
        UserError: if it is a pipe, a socket or a device.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        # What opens it says why it cannot be read.
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or os.path.realpath(path) == os.devnull):
        raise UserError(f"{path} is not a plain file, as {what} must be.")


def open_plain(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a plain file to read bytes.

    Raises:
        UserError: if it does not exist, cannot be read, or is not a plain file.
    """
    check_plain(path)
    try:
        # Without waiting for the other end, if it has become a pipe in the meantime.
        file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except ValueError as error:
        raise UserError(f"There is no file {printable(path)}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    return file


def read_plain(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a plain file.

    Args:
        path: the file.
        limit: the most bytes that it may have.
    Raises:
        UserError: if it cannot be read, is not a plain file, or is larger.
    """
    with open_plain(path) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error
    if len(content) > limit:
        raise UserError(
            f"{path} has more than {limit / MEGABYTE:,.0f} MB, the most that such a file may have."
        )
    return content


def can_exist(path: str | os.PathLike[str]) -> bool:
    """Whether a file can have this name: one with NUL or half a character cannot."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def check_can_exist(path: str) -> None:
    """Check that a file can have this name; see ``can_exist``.

    Raises:
        UserError: if it cannot.
    """
    if not can_exist(path):
        raise UserError(f"There is no file {printable(path)}.")


def printable(path: str | os.PathLike[str]) -> str:
    """A path with escapes in place of NUL and of the halves of characters."""
    text = os.fspath(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return text.replace("\0", "\\0")
