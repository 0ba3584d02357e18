"""Writing files and folders atomically: whole, or not at all."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from .errors import UserError, WorkInterrupted
from .locks import is_at, lock, release
from .plain_files import can_exist, printable

# The standard streams that this process writes to.
STREAMS = {1: "output", 2: "error"}
# Seconds that another process may take to write a file before that is an error.
PATIENCE = 2.0


def check_writable(path: str, read: Iterable[str | None] = ()) -> None:
    """Check that a file can be written, before its content is computed.

    Args:
        path: the file.
        read: the files that the command reads, which it must not replace; None is ignored.
    Raises:
        UserError: if ``path`` is empty, is one of the files of ``read``, or of the standard streams
            of this process, or exists and is not a plain file, such as a folder or a device, or if
            its folder is missing or not writable.
    """
    _check_given(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise UserError(f"{path} cannot be written: it exists and is not a plain file.")
    for number, stream in STREAMS.items():
        if _is_stream(path, number):
            raise UserError(
                f"{path} cannot be written: it is also the standard {stream} of this command, and "
                "would be replaced under it; choose another file."
            )
    file = os.path.realpath(path) if os.path.islink(path) else path
    _check_folder(path, os.path.dirname(file) or ".")
    partial = partial_name(path)
    found = _status(partial, os.lstat)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise UserError(
            f"{path} cannot be written: {partial}, the name of the file until it is complete, is "
            "taken by something other than a plain file; remove that, or choose another output."
        )
    for name in filter(None, read):
        if _is_same(name, path) or _is_same(name, partial):
            which = "" if name == path else f", as {name}"
            raise UserError(
                f"{path} cannot be written: the command also reads this file{which}, and would "
                "replace it; choose another output."
            )


def check_outputs(outputs: Mapping[str, str | None], read: Iterable[str | None] = ()) -> None:
    """Check that outputs are different text files, and that all can be written.

    Args:
        outputs: option -> file, or None if it was not given.
        read: as for ``check_writable``.
    Raises:
        UserError: if the name of one is empty, two are the same, or one cannot be written.
    """
    read = [*read]
    named: dict[str, str] = {}
    for option, path in outputs.items():
        if path == "":
            raise UserError(f"{option} is empty: give the name of a file.")
        if path and (other := named.setdefault(os.path.realpath(path), option)) != option:
            raise UserError(f"{option} is {path}, which {other} names too: choose two files.")
    for option, path in outputs.items():
        if path and (taken := named.get(partial_name(path))):
            raise UserError(
                f"{taken} is {partial_name(path)}, the name of {path} ({option}) until it is "
                "complete: choose another file."
            )
    for path in filter(None, outputs.values()):
        check_text_writable(path, read)


@contextmanager
def atomic_path(path: str) -> Iterator[str]:
    """A temporary file beside a file, which gets the name of the file when it is complete.

    A symbolic link stays, and the file that it points at is replaced. An existing file keeps its
    mode and owner, which the temporary file has from the beginning. After an error, nothing is left
    behind, and an existing file is unchanged.

    Args:
        path: the file to write.
    Yields:
        The path of the temporary file, which is empty.
    Raises:
        UserError: if the file cannot be written, or another process is writing it.
    """
    check_writable(path)
    target, partial = os.path.realpath(path), partial_name(path)
    with undo_after_error(path, lambda: None):
        descriptor = create_temporary(partial, target)
    try:
        with undo_after_error(path, lambda: Path(partial).unlink(missing_ok=True)):
            yield partial
            give_name(partial, target)
    finally:
        release(descriptor)


def give_name(partial: str, target: str) -> None:
    """Give a complete temporary file the name and the mode of the file that it replaces."""
    if old := _status(target):
        os.chmod(partial, stat.S_IMODE(old.st_mode))
    os.replace(partial, target)


@contextmanager
def undo_after_error(path: str, undo: Callable[[], None]) -> Iterator[None]:
    """Leave nothing behind of a file or folder whose writing fails.

    Args:
        path: the file or folder, for the error.
        undo: removes what was written.
    Raises:
        WorkInterrupted: in place of an OSError, such as that of a full disk.
    """
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise WorkInterrupted(f"{path} cannot be written: {reason}.") from error
        raise


def create_temporary(partial: str, target: str) -> int:
    """Create a temporary file, empty and locked, in place of one that a killed process left.

    Nothing is written through a link of this name.

    Args:
        partial: the file.
        target: the file that it becomes; if that exists, the temporary file has its owner, and is
            readable only to those who may read it.
    Returns:
        What ``locks.release`` takes.
    Raises:
        Locked: if another process writes this file, and does not end soon.
        OSError: if it cannot be created.
    """
    old = _status(target)
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            mode = 0o666 if old is None else 0o600
            descriptor = os.open(partial, flags | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            try:
                descriptor = os.open(partial, flags)
            except FileNotFoundError:
                continue
            lock_temporary(descriptor, target)
            if is_at(descriptor, partial):
                os.unlink(partial)
            release(descriptor)
            continue
        lock_temporary(descriptor, target)
        # Until it was locked, it looked like one that a killed process left.
        if is_at(descriptor, partial):
            break
        release(descriptor)
    if old is not None:
        with suppress(PermissionError):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode) | stat.S_IWUSR)
    return descriptor


def lock_temporary(descriptor: int, target: str) -> None:
    """Lock a temporary file until ``locks.release``, or until this process ends.

    Args:
        descriptor: the number of the open file.
        target: the file that it becomes.
    Raises:
        Locked: if another process writes this file, and does not end soon.
    """
    message = (
        f"{target} cannot be written: another process is writing it. Wait until it ends, or choose "
        "another file."
    )
    lock(descriptor, message, PATIENCE)


@contextmanager
def atomic_write(path: str) -> Iterator[TextIO]:
    """Open a text file that gets its name only when it is complete; see ``atomic_path``.

    Args:
        path: the file; its name must not promise compression.
    Raises:
        UserError: if the file cannot be written.
    """
    check_text_writable(path)
    with atomic_path(path) as partial, open(partial, "w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def text_output(path: str | None) -> Iterator[TextIO]:
    """Open a text file as ``atomic_write`` does, or standard output.

    Args:
        path: the file of ``--output``; None for standard output.
    Raises:
        UserError: if the file cannot be written, or standard output is closed.
    """
    if path is not None:
        with atomic_write(path) as file:
            yield file
        return
    if sys.stdout is None:
        raise UserError("Standard output is closed: give a file with --output.")
    yield sys.stdout


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write lines of text, which have no line ends; see ``atomic_write``."""
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def check_folder_writable(path: str) -> None:
    """Check that a new folder can be written.

    Raises:
        UserError: if ``path`` is empty, or exists and is not an empty folder, or if the folder
            around it is missing or not writable.
    """
    _check_given(path)
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise UserError(f"{path} cannot be written: it exists already. Give a new folder.")
    _check_folder(path, os.path.dirname(os.path.abspath(path)))


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
            raise UserError(f"{path} cannot be made: it exists and is not a folder.") from error
    except FileNotFoundError as error:
        parent = os.path.dirname(os.path.abspath(path))
        raise UserError(f"{path} cannot be made: there is no folder {parent}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror or error}.") from error


@contextmanager
def atomic_folder(path: str) -> Iterator[str]:
    """A temporary folder beside a new one, which gets the name of the new one when it is complete.

    An empty folder of this name is replaced, and its mode stays. After an error, nothing is left
    behind.

    Args:
        path: the folder to write.
    Yields:
        The path of the temporary folder.
    Raises:
        UserError: if the folder cannot be written.
    """
    check_folder_writable(path)
    target = os.path.realpath(path)
    partial = f"{target}.{os.urandom(4).hex()}.partial"
    with undo_after_error(path, lambda: shutil.rmtree(partial, ignore_errors=True)):
        os.mkdir(partial)
        if os.path.isdir(target):
            os.chmod(partial, stat.S_IMODE(os.stat(target).st_mode))
        yield partial
        os.replace(partial, target)


def check_text_writable(path: str, read: Iterable[str | None] = ()) -> None:
    """Check that a text file can be written.

    Args:
        path, read: as for ``check_writable``.
    Raises:
        UserError: if it cannot, or if its name ends in ``.gz``.
    """
    if path.endswith(".gz"):
        raise UserError(f"{path} cannot be written: the output is not compressed, so omit .gz.")
    check_writable(path, read)


def _check_given(path: str) -> None:
    if not path:
        raise UserError("The name of the output is empty: give one.")
    if not can_exist(path):
        raise UserError(f"{printable(path)} cannot be written: no file has such a name.")


def _check_folder(path: str, folder: str) -> None:
    if not os.path.isdir(folder):
        raise UserError(f"{path} cannot be written: there is no folder {folder}.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path} cannot be written: the folder {folder} is not writable.")


def partial_name(path: str) -> str:
    """The name of a file until it is complete."""
    return f"{os.path.realpath(path)}.partial"


def _is_stream(path: str, number: int) -> bool:
    """Whether a file is a standard stream of this process."""
    found = _status(path)
    try:
        return found is not None and os.path.samestat(found, os.fstat(number))
    except OSError:
        # The stream is closed.
        return False


def _is_same(first: str, second: str) -> bool:
    """Whether two names are those of one file, perhaps through links."""
    one, other = _status(first), _status(second)
    return one is not None and other is not None and os.path.samestat(one, other)


def _status(path: str, look: Callable[[str], os.stat_result] = os.stat) -> os.stat_result | None:
    """The status of a file; None if there is no such file, or no longer one."""
    try:
        return look(path)
    except (OSError, ValueError):
        return None
