"""Locks of files and folders: one process at a time writes to them.

The system releases a lock when the process that holds it ends, however it ends. File systems
without locks are not protected.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import UserError

# Seconds between two attempts.
INTERVAL = 0.05
_held: set[int] = set()


class Locked(UserError):
    """Another process holds a lock."""


def lock(descriptor: int, message: str, seconds: float = 0.0) -> None:
    """Lock an open file or folder until it is closed, or this process ends.

    Args:
        descriptor: its number; ``release`` closes it.
        message: the error.
        seconds: how long to wait for the lock.
    Raises:
        Locked: if another process holds the lock; the file is closed.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= end:
                os.close(descriptor)
                raise Locked(message) from None
            time.sleep(INTERVAL)
        except OSError:
            # The file system has no locks.
            break
    _held.add(descriptor)


def release(descriptor: int) -> None:
    """Close a locked file, which ends the lock."""
    if descriptor in _held:
        _held.remove(descriptor)
        os.close(descriptor)


def is_held(descriptor: int | None) -> bool:
    """Whether this process holds a lock, rather than the one that it was forked from."""
    return descriptor in _held


def is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one with this name."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def lock_folder(folder: str, message: str, seconds: float = 0.0) -> int:
    """Lock a folder until this process ends, or until ``release``.

    Args:
        folder: the folder, which must exist.
        message: the error.
        seconds: how long to wait for the lock.
    Returns:
        What ``release`` takes.
    Raises:
        Locked: if another process holds the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    lock(descriptor, message, seconds)
    return descriptor


@contextmanager
def locked_file(path: str, message: str) -> Iterator[int]:
    """Hold the lock of a file, which is made if it is missing, and stays.

    Args:
        path: the file.
        message: the error.
    Yields:
        The number of the open file; programs that inherit it hold the lock, too.
    Raises:
        Locked: if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    lock(descriptor, message)
    try:
        yield descriptor
    finally:
        release(descriptor)


def _close_in_child() -> None:
    """Close the files in a forked process, which may outlive this one; the locks stay."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
