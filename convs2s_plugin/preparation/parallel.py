"""Apply a function to a stream of items, in several processes if asked."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing import Pool
from typing import Any, TypeVar

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

    Args:
        workers: number of processes; 1 to start none.
        make: returns the function to apply; called once in each process.
    """
    if workers == 1:
        function = make()
        yield lambda items: map(function, items)
        return
    # An error in a process that starts would be lost, and the process started again.
    make()
    with Pool(workers, _start, (make,)) as pool:

        def run(items: Iterable[Item]) -> Iterator[Result]:
            iterator = iter(items)
            while batch := list(islice(iterator, workers * CHUNKS * CHUNK)):
                yield from pool.map(_apply, batch, chunksize=CHUNK)

        yield run


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _function
    _function = make()


def _apply(item: Any) -> Any:
    return _function(item)
