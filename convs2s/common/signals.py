"""How processes end: properly when a signal asks for it, and with the process that started them."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# Signals with which a scheduler announces the end of a job to all of its processes.
ANNOUNCING = (signal.SIGUSR1, signal.SIGUSR2)
# A child process that is stopped for twice as many seconds is killed.
STOPPED_SECONDS = 5.0


def not_ignored(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """The signals that this process does not ignore; nohup, for example, makes it ignore SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit: child processes end, and partial files are removed.

    The exit code is 128 plus the number of the signal, as in a shell. Only the main thread can
    handle signals: in another one, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = not_ignored((signal.SIGTERM, signal.SIGHUP))

    def end(number: int, frame: FrameType | None) -> None:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_signals(save: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, once.

    Args:
        save: called at the first one of the signals of ANNOUNCING.
    """
    ending = not_ignored((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def end(number: int, frame: FrameType | None) -> None:
        for other in (*ending, *ANNOUNCING):
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    def announce(number: int, frame: FrameType | None) -> None:
        for other in ANNOUNCING:
            signal.signal(other, signal.SIG_IGN)
        save()

    handlers = {number: end for number in ending} | dict.fromkeys(ANNOUNCING, announce)
    # Programs that are started ignore what is ignored here, and do not inherit a function: Ctrl-C
    # must make them save even where the shell has turned it off, as with nohup.
    handlers.setdefault(signal.SIGINT, lambda number, frame: None)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def begin_child() -> None:
    """Let the parent decide when this process ends; to be called first in a worker process.

    It ignores Ctrl-C, which the parent gets as well. SIGTERM and the end of the parent end it at
    once, in the middle of any work.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in not_ignored((signal.SIGTERM, signal.SIGHUP)):
        signal.signal(number, signal.SIG_DFL)
    end_with_parent()


def end_with_parent() -> None:
    """End this process, in the middle of its work, as soon as the one that started it has ended."""
    # Commands without processes start sooner.
    from multiprocessing import parent_process

    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


@contextmanager
def without_stopped_children(pids: Callable[[], Iterable[int]]) -> Iterator[set[int]]:
    """Kill child processes that are stopped, by SIGSTOP for example: they would be waited for.

    If this process is stopped together with them, by Ctrl-Z, they are left to continue together.

    Args:
        pids: returns their numbers.
    Yields:
        The numbers of those that were killed so far.
    """
    import psutil

    killed: set[int] = set()
    ended = threading.Event()

    def watch() -> None:
        seen: set[int] = set()
        while not ended.wait(STOPPED_SECONDS):
            stopped = set()
            for pid in pids():
                with suppress(psutil.NoSuchProcess):
                    if psutil.Process(pid).status() == psutil.STATUS_STOPPED:
                        stopped.add(pid)
            for pid in seen & stopped:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
            seen = stopped

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        ended.set()
        thread.join()
