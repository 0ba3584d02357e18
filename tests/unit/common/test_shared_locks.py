"""Locks between machines, of which the other one is a thread that keeps a file alive."""

import errno
import os
import subprocess
import sys
import threading
import time

import pytest

from convs2s.common import locks
from convs2s.common.errors import WorkInterrupted
from convs2s.common.locks import Locked, shared_lock

HOUR = 3600
LEASE = """filelock/2
pid=5
host=elsewhere
mode=lease
token=aa
duration={duration}
start=7
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """The path of a lock; signs of life are frequent, as in HOLD."""
    monkeypatch.setattr(locks, "LEASE", 1.5)
    monkeypatch.setattr(locks, "BEAT", 0.1)
    monkeypatch.setattr(locks, "GLANCE", 0.1)
    return str(tmp_path / "locks" / "name")


class OtherMachine:
    """Holds a lock, and shows signs of life by a clock of its own.

    Args:
        path: the lock.
        late: seconds that its clock is behind.
    """

    def __init__(self, path, late=0):
        self.file, self.late = f"{path}.lease", late
        os.makedirs(os.path.dirname(path))
        with open(self.file, "w") as file:
            file.write(LEASE.format(duration=locks.LEASE))
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.live)
        self.beat()
        self.thread.start()

    def beat(self):
        now = time.time() - self.late
        os.utime(self.file, (now, now))

    def live(self):
        while not self.ended.wait(0.1):
            self.beat()

    def die(self):
        self.ended.set()
        self.thread.join()


@pytest.mark.parametrize("late", [HOUR, 0, -HOUR])
def test_another_machine_holds_a_lock_until_it_is_dead(path, late):
    other = OtherMachine(path, late)
    for _ in range(2):
        with pytest.raises(Locked, match="The run is in use by process 5 on elsewhere: wait until"):
            with shared_lock(path, "The run"):
                pass
    other.die()
    start = time.monotonic()
    with shared_lock(path, "The run"):
        assert time.monotonic() - start >= locks.LEASE
    assert not os.path.exists(other.file)


def test_a_lock_of_another_machine_is_waited_for(path):
    other = OtherMachine(path)
    threading.Timer(0.5, other.die).start()
    with shared_lock(path, "The run", wait=True):
        assert other.ended.is_set()


HOLD = """
import sys, subprocess, time
from convs2s.common import locks
locks.LEASE, locks.BEAT = 1.5, 0.1
with locks.shared_lock(sys.argv[1], "The run") as descriptor:
    if sys.argv[2]:
        subprocess.Popen(["sleep", sys.argv[2]], pass_fds=[descriptor], stdout=subprocess.DEVNULL)
    print("held", flush=True)
    time.sleep(100)
"""


def test_a_killed_process_of_this_machine_is_known_at_once(path):
    with subprocess.Popen([sys.executable, "-c", HOLD, path, ""], stdout=subprocess.PIPE) as held:
        held.stdout.readline()
        with pytest.raises(Locked, match=f"in use by process {held.pid} on "):
            with shared_lock(path, "The run"):
                pass
        held.kill()
    with shared_lock(path, "The run"):
        pass


def test_a_program_of_a_killed_process_holds_its_lock(path):
    with subprocess.Popen([sys.executable, "-c", HOLD, path, "2"], stdout=subprocess.PIPE) as held:
        held.stdout.readline()
        held.kill()
    with pytest.raises(Locked):
        with shared_lock(path, "The run"):
            pass
    with shared_lock(path, "The run", wait=True):
        pass


def test_a_lost_lock_is_noticed(path):
    lost = threading.Event()
    with shared_lock(path, "The run", lost=lost.set):
        assert not lost.wait(0.5)
        os.unlink(f"{path}.lease")
        assert lost.wait(10)


def test_a_full_disk_is_a_sentence(path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "makedirs", fail)
    with pytest.raises(WorkInterrupted, match="name cannot be locked: No space left on device"):
        with shared_lock(path, "The run"):
            pass
