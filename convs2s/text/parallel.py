"""Apply a function to a stream of items, in several processes if asked."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children
from typing import Any, TypeVar

from ..common.errors import WorkInterrupted
from ..common.signals import begin_child, without_stopped_children

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
                    f"One of {workers} processes was stopped or ended, perhaps because memory ran "
                    "out: use fewer of them."
                ) from error

    try:
        with without_stopped_children(lambda: [each.pid for each in active_children() if each.pid]):
            yield run
    finally:
        pool.shutdown(cancel_futures=True)


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    """Begin a process."""
    global _function
    begin_child()
    _function = make()


def _apply(item: Any) -> Any:
    return _function(item)
