"""Apply a function to a stream of items, in several processes if asked."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from ..common.errors import WorkInterrupted
from ..common.signals import begin_child, without_stopped_children

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")
# Items that a process takes at a time, and how many such chunks for each process are waiting.
CHUNK, CHUNKS = 500, 4

_function: Callable[[Any], Any]


@contextmanager
def mapper(
    workers: int, make: Callable[[], Callable[[Item], Result]]
) -> Iterator[Callable[[Iterable[Item]], Iterator[Result]]]:
    """A function that maps items to results, in their order.

    It reads a few items ahead for each process, and no more. It raises WorkInterrupted if a process
    ends.

    Args:
        workers: number of processes; 1 to start none.
        make: returns the function to apply; called once in each process.
    """
    if workers == 1:
        function = make()
        yield lambda items: map(function, items)
        return
    # Programs that start no processes start faster.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children

    # An error in a starting process would be lost.
    make()
    pool = ProcessPoolExecutor(workers, initializer=_start, initargs=(make,))

    def run(items: Iterable[Item]) -> Iterator[Result]:
        iterator = iter(items)
        chunks = iter(lambda: list(islice(iterator, CHUNK)), [])
        waiting: deque[Future[list[Result]]] = deque()
        try:
            for chunk in chunks:
                waiting.append(pool.submit(_apply, chunk))
                if len(waiting) > workers * CHUNKS:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
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


def _apply(chunk: list[Any]) -> list[Any]:
    return [*map(_function, chunk)]
