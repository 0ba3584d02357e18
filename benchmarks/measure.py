"""Pieces of work: their times in turn (A B A B ...), and what memory each takes."""

import multiprocessing
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from convs2s_plugin.errors import UserError

AT_LEAST = 3


def alternate(
    pieces: dict[str, Callable[[], object]],
    rounds: int,
    warmup: int = 2,
    seconds: float | None = None,
    device: str = "cpu",
) -> dict[str, list[float]]:
    """Run all in turn; the seconds of each round of each.

    Args:
        pieces: name -> the work; what it returns is ignored.
        rounds: how many rounds count.
        warmup: how many rounds come before and do not count (2).
        seconds: once these are over, AT_LEAST rounds are enough (no limit).
        device: is waited for after each piece ("cpu").
    """
    times: dict[str, list[float]] = {name: [] for name in pieces}
    first = time.perf_counter()
    for number in range(-warmup, rounds):
        over = seconds is not None and time.perf_counter() - first > seconds
        if over and number >= AT_LEAST:
            break
        for name, work in pieces.items():
            start = time.perf_counter()
            work()
            wait(device)
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def wait(device: str) -> None:
    """Until a device has done all that it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def ratios(over: list[float], under: list[float]) -> list[float]:
    """Round by round, one time over another."""
    return [above / below for above, below in zip(over, under)]


def summary(values: list[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(values), "minimum": min(values), "maximum": max(values)}


def peak_memory(device: str, prepare: Callable, *arguments) -> int:
    """How much memory work takes at its peak, in bytes, beyond what is there before it.

    On a processor it is resident memory, in a process of its own (Linux); on a GPU, torch's.

    Args:
        device: that it works on.
        prepare: a function of a module, which returns at least two pieces of work: one so small
            that what is loaded or made once does not count, and the one that counts.
        arguments: of ``prepare``.
    Raises:
        UserError: where the work cannot be done.
    """
    if device == "cuda":
        return peak_on_gpu(*prepare(*arguments)[:2])
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(
        target=_peak, args=(prepare, arguments, torch.get_num_threads(), send)
    )
    process.start()
    # Else a process that fails would be waited for without end.
    send.close()
    try:
        peak = receive.recv()
    except EOFError as error:
        raise UserError(
            "The process that measures memory ended before its work, perhaps because there was not "
            "enough of it: take fewer or shorter sentences."
        ) from error
    process.join()
    if isinstance(peak, str):
        raise UserError(peak)
    return peak


def peak_on_gpu(tiny: Callable[[], object], work: Callable[[], object]) -> int:
    """The same for work that is prepared already, on a GPU."""
    tiny()
    wait("cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    wait("cuda")
    return torch.cuda.max_memory_allocated() - before


def _peak(prepare: Callable, arguments, threads: int, answer) -> None:
    torch.set_num_threads(threads)
    try:
        tiny, work = prepare(*arguments)[:2]
    except UserError as error:
        answer.send(str(error))
        return
    tiny()
    before = _most_resident()
    work()
    answer.send(_most_resident() - before)


def _most_resident() -> int:
    """The most bytes this process has had resident."""
    # getrusage would count what the parent had before this process was started.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
