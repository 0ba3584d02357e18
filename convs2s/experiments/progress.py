"""Show the progress of all runs: a block of lines in a terminal, otherwise an occasional line."""

import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TextIO

from .runs import Run

# Seconds between two messages, in a terminal and in a log file.
TERMINAL_SECONDS, LOG_SECONDS = 0.5, 60.0
UNIT = " updates"


@dataclass
class Status:
    """The state of a run.

    Attributes:
        run: the run.
        step: title of the step; None if the run is not running.
        ended: whether the run has ended.
        values: the last numbers in its training log.
        start, first: time and number of the first update in this part of the log.
    """

    run: Run
    step: str | None = None
    ended: bool = False
    values: dict[str, float] = field(default_factory=dict)
    start: float = 0.0
    first: int = 0

    @property
    def updates(self) -> int:
        """Number of updates so far."""
        return int(self.values.get("num_updates", 0))

    @property
    def total(self) -> int | None:
        """Number of updates of the training run, estimated if epochs end it; None if unknown."""
        if self.ended:
            return self.updates
        totals = [self.run.updates] if self.run.updates else []
        # fairseq logs the epochs that have passed, with a fraction, as "update".
        epochs, last = self.values.get("update", 0), self.run.train.get("max-epoch")
        if epochs and last:
            totals.append(max(self.updates, round(self.updates / epochs * float(last))))
        return min(totals, default=None)

    def line(self, now: float, width: int) -> str:
        """The state in one line, with a bar unless its width is 0."""
        if self.step != "trains":
            return f"{self.run.name}: {self.step}"
        loss, speed = self.values.get("loss", math.nan), self.values.get("wps", 0)
        epoch = "" if self.run.updates else f"epoch {self.values.get('epoch', 1):.0f}, "
        shown = f"{epoch}loss {loss:g}, {speed:,.0f} tokens/s"
        elapsed = now - self.start
        return _meter(self.updates, self.total, elapsed, width, self.run.name, self.first, shown)


def _meter(
    updates: int,
    total: int | None,
    elapsed: float,
    width: int,
    title: str,
    first: int,
    more: str | None = None,
) -> str:
    # Programs that start no run start faster.
    from tqdm.std import tqdm

    return tqdm.format_meter(
        updates, total, elapsed, width, title, unit=UNIT, postfix=more, initial=first
    )


class Progress:
    """Prints the progress of the runs.

    Args:
        runs: all runs of the experiment.
        done: names of the runs that were finished before.
        stream: text stream to print to.
    """

    def __init__(self, runs: Sequence[Run], done: Sequence[str], stream: TextIO):
        self.stream, self.is_terminal = stream, stream.isatty()
        self.statuses = {run.name: Status(run) for run in runs if run.name not in done}
        self.number, self.done = len(runs), len(done)
        self.lines_drawn = 0
        self.start_time = time.monotonic()
        self.next_message = self.start_time + (0.0 if self.is_terminal else LOG_SECONDS)
        self.lock = Lock()

    def say(self, text: str) -> None:
        """Print a line above the block."""
        with self.lock:
            self.erase()
            print(text, file=self.stream, flush=True)

    def start(self, run: Run) -> None:
        """Note that a run starts."""
        self.step(run, "starts")
        self.say(f"[{clock()}] {run.name} starts")

    def step(self, run: Run, step: str, values: dict[str, float] | None = None) -> None:
        """Note that a run has reached another step, or that its training has logged numbers."""
        with self.lock:
            status = self.statuses[run.name]
            status.step = step
            if values:
                is_first, status.values = not status.values, values
                if is_first:
                    status.start, status.first = time.monotonic(), status.updates

    def end(self, run: Run, text: str, succeeded: bool) -> None:
        """Note that a run has ended."""
        with self.lock:
            status = self.statuses[run.name]
            status.step, status.ended = None, True
            self.done += succeeded
        self.say(f"[{clock()}] {text}")

    def draw(self) -> None:
        """Print the state of all running runs if enough time has passed since the last time."""
        now = time.monotonic()
        if now < self.next_message:
            return
        self.next_message = now + (TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS)
        with self.lock:
            width = shutil.get_terminal_size().columns - 1 if self.is_terminal else 0
            running = [status for status in self.statuses.values() if status.step is not None]
            lines = [status.line(now, width) for status in running]
            lines.append(self.summary(now, width))
            if self.is_terminal:
                self.erase()
                text = "\n".join(line[:width] for line in lines)
                self.lines_drawn = len(lines)
            else:
                text = f"[{clock()}] {'; '.join(lines)}"
            print(text, file=self.stream, flush=True)

    def summary(self, now: float, width: int) -> str:
        """The number of runs that are done, and the share and the time of all updates."""
        title = f"{self.done} of {self.number} runs done"
        trained = [status for status in self.statuses.values() if not status.run.models]
        totals = [status.total for status in trained if status.total is not None]
        if not totals:
            return title
        # Training runs of unknown length are assumed to be like the others.
        total = round(sum(totals) / len(totals) * len(trained))
        updates, first = (
            sum(getattr(status, name) for status in trained) for name in ("updates", "first")
        )
        return _meter(updates, total, now - self.start_time, width, title, first)

    def close(self) -> None:
        """Remove the block for good."""
        with self.lock:
            self.erase()

    def erase(self) -> None:
        """Remove the block."""
        if self.lines_drawn:
            print(f"\033[{self.lines_drawn}A\033[J", end="", file=self.stream)
            self.lines_drawn = 0


def clock() -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S")
