"""Two pieces of work: their times in turn (A B A B ...), and what memory each takes."""

import multiprocessing
import re
import statistics
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

import torch


class Times(NamedTuple):
    """Seconds of each round of both, in order."""

    ours: List[float]
    peer: List[float]

    @property
    def ratios(self) -> List[float]:
        """How many times as long the peer took, round by round."""
        return [theirs / mine for mine, theirs in zip(self.ours, self.peer)]

    def summary(self) -> Dict[str, Dict[str, float]]:
        """Median, minimum and maximum of both and of their ratio."""
        columns = {"ours": self.ours, "peer": self.peer, "ratio": self.ratios}
        return {
            name: {
                "median": statistics.median(values),
                "minimum": min(values),
                "maximum": max(values),
            }
            for name, values in columns.items()
        }


def alternate(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int, warmup: int = 2
) -> Times:
    """Run both in turn.

    Args:
        ours, peer: the work; what it returns is ignored.
        rounds: how many rounds count.
        warmup: how many rounds come before and do not count (2).
    """
    times = Times([], [])
    for number in range(warmup + rounds):
        for work, seconds in ((ours, times.ours), (peer, times.peer)):
            start = time.perf_counter()
            work()
            if number >= warmup:
                seconds.append(time.perf_counter() - start)
    return times


def peak_memory(prepare: Callable, *arguments) -> int:
    """How much resident memory work takes at its peak, in bytes, in a process of its own (Linux).

    Args:
        prepare: a function of a module, which returns two pieces of work: one so small that what
            is loaded or made once does not count, and the one that counts.
        arguments: of ``prepare``.
    """
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(
        target=_peak, args=(prepare, arguments, torch.get_num_threads(), send)
    )
    process.start()
    # Else a process that fails would be waited for without end.
    send.close()
    peak = receive.recv()
    process.join()
    return peak


def _peak(prepare: Callable, arguments, threads: int, answer) -> None:
    torch.set_num_threads(threads)
    small, work = prepare(*arguments)
    small()
    before = _most_resident()
    work()
    answer.send(_most_resident() - before)


def _most_resident() -> int:
    """The most bytes this process has had resident."""
    # getrusage would count what the parent had before this process was started.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
