"""Writing files and folders atomically: whole, or not at all. Needs neither torch nor fairseq."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from .errors import UserError, WorkInterrupted


def check_writable(path: str) -> None:
    """Check that a file can be written, before its content is computed.

    Raises:
        UserError: if ``path`` is empty, or exists and is no plain file, such as a folder or a
            device, or if its folder is missing or not writable.
    """
    _check_given(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path} cannot be written: it exists and is not a plain file.")
    file = os.path.realpath(path) if os.path.islink(path) else path
    folder = os.path.dirname(file) or "."
    if not os.path.isdir(folder):
        raise UserError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {folder} is not writable.")


@contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """A temporary file beside a file, which gets the name of the file when it is complete.

    A symbolic link stays, and the file that it points at is replaced. An existing file keeps its
    mode. After an error, nothing is left behind, and an existing file is unchanged.

    Args:
        path: the file to write.
    Yields:
        The path of the temporary file.
    Raises:
        UserError: if the file cannot be written.
    """
    check_writable(path)
    target = os.path.realpath(path)
    partial = f"{target}.partial"
    try:
        yield partial
        if os.path.exists(target):
            os.chmod(partial, os.stat(target).st_mode & 0o7777)
        os.replace(partial, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.remove(partial)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise WorkInterrupted(f"{path} cannot be written: {reason}.") from error
        raise


@contextmanager
def atomic_write(path: str) -> Iterator[TextIO]:
    """Open a text file that gets its name only when it is complete; see ``atomic_path``.

    Args:
        path: the file; its name must not promise compression.
    Raises:
        UserError: if the file cannot be written.
    """
    check_text_writable(path)
    with (
        atomic_path(path) as partial,
        open(partial, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


def check_folder_writable(path: str) -> None:
    """Check that a new folder can be written.

    Raises:
        UserError: if ``path`` is empty, or exists and is not an empty folder, or if the folder that
            it is to be in is missing or not writable.
    """
    _check_given(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise UserError(f"{path} cannot be written: it exists already. Give a new folder.")
    parent = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(parent):
        raise UserError(f"{path} cannot be written: there is no folder {parent}.")
    if not os.access(parent, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {parent} is not writable.")


def make_folder(path: str) -> None:
    """Make a folder unless it exists, but not the one that it is in.

    Raises:
        UserError: if it cannot be made.
    """
    _check_given(path)
    try:
        os.mkdir(path)
    except FileExistsError as error:
        if not os.path.isdir(path):
            raise UserError(f"{path} cannot be made: it exists and is no folder.") from error
    except FileNotFoundError as error:
        parent = os.path.dirname(os.path.abspath(path))
        raise UserError(f"{path} cannot be made: there is no folder {parent}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror or error}.") from error


@contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """A temporary folder beside a new one, which gets the name of the new one when it is complete.

    After an error, nothing is left behind.

    Args:
        path: the folder to write.
    Yields:
        The path of the temporary folder.
    Raises:
        UserError: if the folder cannot be written.
    """
    check_folder_writable(path)
    partial = f"{os.path.abspath(path)}.{os.getpid()}.partial"
    try:
        os.mkdir(partial)
        yield partial
        os.replace(partial, os.path.abspath(path))
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise WorkInterrupted(f"{path} cannot be written: {reason}.") from error
        raise


def check_text_writable(path: str) -> None:
    """Check that a text file can be written; see ``check_writable``.

    Raises:
        UserError: if it cannot, or if its name ends in ``.gz``.
    """
    if path.endswith(".gz"):
        raise UserError(f"{path} cannot be written: the output is not compressed, leave out .gz.")
    check_writable(path)


def _check_given(path: str) -> None:
    if not path:
        raise UserError("The name of the output is empty: give one.")
