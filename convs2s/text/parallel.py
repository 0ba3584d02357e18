"""Apply a function to a stream of items, in several processes if asked."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import parent_process
from typing import Any, TypeVar

from ..common.errors import WorkInterrupted

Item = TypeVar("Item")
Result = TypeVar("Result")
# Items that a process takes at a time, and how often it does so before all results are read.
CHUNK, CHUNKS = 500, 4

_function: Callable[[Any], Any]


@contextmanager
def mapper(
    workers: int, make: Callable[[], Callable[[Item], Result]]
) -> Iterator[Callable[[Iterable[Item]], Iterator[Result]]]:
    """A function that maps items to results, in their order.

    The function raises WorkInterrupted if a process ends.

    Args:
        workers: number of processes; 1 to start none.
        make: returns the function to apply; called once in each process.
    """
    if workers == 1:
        function = make()
        yield lambda items: map(function, items)
        return
    # An error in a process that starts would be lost.
    make()
    pool = ProcessPoolExecutor(workers, initializer=_start, initargs=(make,))

    def run(items: Iterable[Item]) -> Iterator[Result]:
        iterator = iter(items)
        while batch := list(islice(iterator, workers * CHUNKS * CHUNK)):
            try:
                yield from pool.map(_apply, batch, chunksize=CHUNK)
            except BrokenProcessPool as error:
                raise WorkInterrupted(
                    f"One of {workers} processes was ended, perhaps because memory ran out: "
                    "use fewer of them."
                ) from error

    try:
        yield run
    finally:
        pool.shutdown(cancel_futures=True)


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    """Begin a process."""
    global _function
    # The parent decides what an interrupt means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    _function = make()


def end_with_parent() -> None:
    """End this process, in the middle of its work, as soon as the one that started it has ended."""
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _apply(item: Any) -> Any:
    return _function(item)
