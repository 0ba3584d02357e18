"""Locks of files and folders: one process at a time writes to them.

The system releases a lock when the process that holds it ends, however it ends. File systems
without locks are not protected.
"""

import fcntl
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from .errors import UserError, WorkInterrupted

# Seconds between two attempts.
INTERVAL = 0.05
# Seconds that the lock of a machine lasts after its last sign of life, and between two of these.
LEASE, BEAT = 60.0, 5.0
# Seconds that a lock may be held by a command that only looks at it.
GLANCE = 2.0
_held: set[int] = set()


class Locked(UserError):
    """Another process holds a lock."""


def lock(descriptor: int, message: str, seconds: float = 0.0, shared: bool = False) -> None:
    """Lock an open file or folder until it is closed, or this process ends.

    Args:
        descriptor: its number; ``release`` closes it.
        message: the error.
        seconds: how long to wait for the lock.
        shared: whether other processes may hold a shared lock, too.
    Raises:
        Locked: if another process holds the lock; the file is closed.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
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


def lock_folder(folder: str, message: str, seconds: float = 0.0, shared: bool = False) -> int:
    """Lock a folder until this process ends, or until ``release``.

    Args:
        folder: the folder, which must exist.
        message: the error.
        seconds: how long to wait for the lock.
        shared: whether other processes may hold a shared lock, too.
    Returns:
        What ``release`` takes.
    Raises:
        Locked: if another process holds the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    lock(descriptor, message, seconds, shared)
    return descriptor


@contextmanager
def locked_file(path: str, message: str, seconds: float = 0.0) -> Iterator[int]:
    """Hold the lock of a file, which is made if it is missing, and stays.

    Args:
        path: the file.
        message: the error.
        seconds: how long to wait for the lock.
    Yields:
        The number of the open file; programs that inherit it hold the lock, too.
    Raises:
        Locked: if another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    lock(descriptor, message, seconds)
    try:
        yield descriptor
    finally:
        release(descriptor)


@contextmanager
def shared_lock(
    path: str, what: str, wait: bool = False, lost: Callable[[], None] = lambda: None
) -> Iterator[int]:
    """Hold a lock that processes of other machines on the same file system respect, too.

    The file PATH.lease names the machine and the process, and its time is that of the last sign of
    life. If a process on this machine held the lock and has ended, that is known at once. On
    another machine, it has ended if the time of the file stays the same for LEASE seconds, which
    this machine counts: the clocks of machines may differ.

    Args:
        path: a file, which is made if it is missing, and stays.
        what: what is locked, as the beginning of an error.
        wait: whether to wait for the lock, however long it takes.
        lost: called in another thread if another machine has taken the lock, or the file is gone.
    Yields:
        The number of the open file; programs that inherit it hold the lock on this machine, too.
    Raises:
        Locked: if another process holds the lock, and ``wait`` is false.
        WorkInterrupted: if the files cannot be written.
    """
    # It would delay commands without such locks.
    from filelock import LeaseSettingsMismatch, SoftFileLease, Timeout

    lease = SoftFileLease(
        f"{path}.lease",
        lease_duration=LEASE,
        heartbeat_interval=BEAT,
        on_compromise=lambda _: lost(),
    )

    def sentence() -> str:
        owner = lease.owner
        by = "a program that a command left behind"
        if owner is not None:
            # In a container, filelock adds a number to the name of the machine.
            by = f"process {owner.pid} on {owner.hostname.partition('?')[0]}"
        return f"{what} is in use by {by}: wait until it ends."

    with ExitStack() as held:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            seconds = math.inf if wait else GLANCE
            descriptor = held.enter_context(locked_file(path, sentence(), seconds))
            seen = _beat(lease.lock_file)
            lives = None if wait else lambda: _beat(lease.lock_file) not in (None, seen)
            held.enter_context(lease.acquire(cancel_check=lives))
        # Another version of this package may have other times.
        except (Timeout, LeaseSettingsMismatch):
            raise Locked(sentence()) from None
        except OSError as error:
            reason = error.strerror or error
            raise WorkInterrupted(f"{path} cannot be locked: {reason}.") from error
        yield descriptor


def _beat(path: str) -> int | None:
    """The time of a file in nanoseconds, asked of its file system; None if there is none."""
    try:
        # Opening a file makes a network file system look.
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None


def _close_in_child() -> None:
    """Close the files in a forked process, which may outlive this one; the locks stay."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
