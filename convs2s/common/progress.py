"""Progress on standard error."""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO

from .quiet import Shown

if TYPE_CHECKING:
    from tqdm.std import tqdm

# Seconds between two messages, on a terminal and in a log file.
TERMINAL_SECONDS, LOG_SECONDS = 0.5, 30.0


def show_progress(
    items: Iterable[Any] | None = None,
    unit: str = "",
    desc: str | None = None,
    total: int | None = None,
    scale: bool = False,
    stream: TextIO | None = None,
    initial: int = 0,
) -> "tqdm[Any]":
    """A tqdm bar in a terminal, and an occasional line in a log file.

    Nothing is shown if the work is done before the first message is due.

    Args:
        items: what is counted while it is iterated over (None: ``update`` counts).
        unit: name of what is counted, in the plural.
        desc: text before the numbers: what is being done.
        total: number of items, if it is known.
        scale: write large numbers as 1.2k or 3.4M.
        initial: the number that was done before.
        stream: text stream to print to (None: standard error).
    """
    stream = stream or sys.stderr
    seconds = TERMINAL_SECONDS if stream.isatty() else LOG_SECONDS
    return _bar_class()(
        items,
        disable=not Shown.progress,
        unit=unit if scale else f" {unit}",
        desc=desc,
        total=total,
        initial=initial,
        unit_scale=scale,
        file=stream,
        delay=seconds,
        mininterval=seconds,
        maxinterval=seconds,
        miniters=1,
        leave=stream.isatty(),
        dynamic_ncols=True,
    )


@cache
def _bar_class() -> "type[tqdm[Any]]":
    # Help, and programs that count nothing, start faster.
    from tqdm.std import tqdm

    class Bar(tqdm):
        # A thread beside the main one could lock up the processes that are forked.
        monitor_interval = 0

        @staticmethod
        def status_printer(file: TextIO) -> Callable[[str], None]:
            if file.isatty():
                return tqdm.status_printer(file)
            return lambda text: print(text, file=file, flush=True) if text else None

    return Bar
