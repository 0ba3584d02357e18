"""Measure functions: times in alternating rounds (A B A B ...) and peak memory."""

import multiprocessing
import os
import re
import statistics
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar
from unittest import mock

import torch

from convs2s.common.errors import UserError

Name = TypeVar("Name", bound=Hashable)
# Rounds that are measured even if the time limit is over.
MIN_ROUNDS = 3
# Freed tensors go back at once. Kept for reuse (convs2s.common.memory), they would fit the next
# ones or not by chance, and the peaks of equal runs would differ by whole tensors.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(64 * 1024)}


def alternate(
    timed: dict[Name, Callable[[], object]],
    rounds: int,
    warmup: int = 2,
    max_seconds: float | None = None,
    device: str = "cpu",
) -> dict[Name, list[float]]:
    """Call the functions in turn, and return the seconds of each call.

    Args:
        timed: name -> function; return values are ignored.
        rounds: number of measured rounds.
        warmup: number of rounds before these, which are not measured (2).
        max_seconds: after this time, no round begins unless MIN_ROUNDS are not reached (no limit).
        device: the device to synchronize with after each call ("cpu").
    """
    times: dict[Name, list[float]] = {name: [] for name in timed}
    begin = time.perf_counter()
    for number in range(-warmup, rounds):
        over = max_seconds is not None and time.perf_counter() - begin > max_seconds
        if over and number >= MIN_ROUNDS:
            break
        for name, function in timed.items():
            start = time.perf_counter()
            function()
            synchronize(device)
            if number >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def synchronize(device: str) -> None:
    """Wait until a GPU has finished; do nothing for a CPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def ratios(numerators: list[float], denominators: list[float]) -> list[float]:
    """The ratio of two times in each round."""
    return [above / below for above, below in zip(numerators, denominators)]


def summary(values: list[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(values), "minimum": min(values), "maximum": max(values)}


def peak_memory(device: str, prepare: Callable, *arguments) -> int:
    """The peak memory of a function in bytes, beyond the memory in use before the call.

    On a CPU, this is the resident memory of a separate process (Linux only); on a GPU, the memory
    that torch has allocated.

    Args:
        device: one of setting.DEVICES.
        prepare: a module-level function. The first two items that it returns are a warm-up
            function, for memory that is allocated only once, and the function to measure.
        arguments: arguments of ``prepare``.
    Raises:
        UserError: if ``prepare`` raises it, or the process ends early.
    """
    if device == "cuda":
        return peak_on_gpu(*prepare(*arguments)[:2])
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_send_peak, args=(prepare, arguments, torch.get_num_threads(), sender)
    )
    with mock.patch.dict(os.environ, ALLOCATOR):
        process.start()
    # With this end open, recv would not notice that the process has ended.
    sender.close()
    try:
        peak = receiver.recv()
    except EOFError as error:
        raise UserError(
            "The process that measures memory ended early, perhaps because memory ran out: "
            "use fewer or shorter sentences."
        ) from error
    process.join()
    if isinstance(peak, str):
        raise UserError(peak)
    return peak


def peak_on_gpu(warm_up: Callable[[], object], function: Callable[[], object]) -> int:
    """The peak memory of a function on a GPU in bytes, beyond the memory in use before the call."""
    warm_up()
    synchronize("cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    synchronize("cuda")
    return torch.cuda.max_memory_allocated() - before


def _send_peak(prepare: Callable, arguments: tuple, threads: int, sender) -> None:
    torch.set_num_threads(threads)
    try:
        warm_up, function = prepare(*arguments)[:2]
    except UserError as error:
        sender.send(str(error))
        return
    warm_up()
    before = _peak_resident()
    function()
    sender.send(_peak_resident() - before)


def _peak_resident() -> int:
    """The peak resident memory of this process in bytes."""
    # The maximum that getrusage reports starts at the parent's.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024
