"""Show the progress of all runs: a block of lines in a terminal, else a line now and then."""

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


@dataclass
class Status:
    """The state of a run that is carried out.

    Attributes:
        run: the run.
        step: title of the step.
        stats: the last numbers in the log of its training.
        first, last: time and number of the first and of the last update in this part of the log.
    """

    run: Run
    step: str = "starts"
    stats: dict[str, float] = field(default_factory=dict)
    first: tuple[float, int] | None = None
    last: tuple[float, int] = (0.0, 0)

    def line(self, seconds_per_update: float | None) -> str:
        """The state in one line."""
        if self.step != "trains":
            return f"{self.run.name}: {self.step}"
        updates, total = self.last[1], self.total
        if self.run.updates:
            reached = f"update {updates:,}/{total:,}"
        else:
            last = self.run.train.get("max-epoch", "?")
            reached = f"epoch {self.stats.get('epoch', 1):.0f}/{last}, update {updates:,}"
        parts = [f"{self.run.name}: {reached}", f"loss {self.stats.get('loss', math.nan):g}"]
        parts += [f"{self.stats.get('wps', 0):,.0f} tokens/s"]
        if seconds_per_update is not None and total is not None:
            parts.append(f"{duration((total - updates) * seconds_per_update)} left")
        return ", ".join(parts)

    @property
    def total(self) -> int | None:
        """Number of updates of the whole training, estimated if epochs end it; None if unknown."""
        totals = [self.run.updates] if self.run.updates else []
        # fairseq logs the epochs that have passed, with a fraction, as "update".
        epochs, last = self.stats.get("update", 0), self.run.train.get("max-epoch")
        if epochs and last:
            totals.append(max(self.last[1], round(self.last[1] / epochs * float(last))))
        return min(totals, default=None)


class Progress:
    """Prints the progress of the runs.

    Args:
        runs: all runs of the experiment.
        done: names of those that were finished before.
        jobs: number of runs at a time.
        stream: text stream to print to.
    """

    def __init__(self, runs: Sequence[Run], done: Sequence[str], jobs: int, stream: TextIO):
        self.runs, self.jobs, self.stream = runs, jobs, stream
        self.is_terminal = stream.isatty()
        self.done = len(done)
        self.statuses: dict[str, Status] = {}
        # Name of a system -> seconds and number of the updates of its finished trainings.
        self.measured: dict[str, tuple[float, int]] = {}
        # Name of a system -> number of the updates of a training, where epochs end it.
        self.totals: dict[str, int] = {}
        # Name of a run -> number of updates to do; None while it is unknown.
        self.remaining = {
            run.name: run.updates for run in runs if run.base is None and run.name not in done
        }
        self.lines_drawn = 0
        self.next_message = time.monotonic() + (0.0 if self.is_terminal else LOG_SECONDS)
        self.lock = Lock()

    def say(self, text: str) -> None:
        """Print a line above the block."""
        with self.lock:
            self.erase()
            print(text, file=self.stream, flush=True)

    def start(self, run: Run) -> None:
        """A run starts."""
        with self.lock:
            self.statuses[run.name] = Status(run)
        self.say(f"[{clock()}] {run.name} starts")

    def step(self, run: Run, step: str, stats: dict[str, float] | None = None) -> None:
        """A run has reached another step, or its training has logged numbers."""
        with self.lock:
            status = self.statuses[run.name]
            status.step = step
            if stats:
                status.stats = stats
                status.last = (time.monotonic(), int(stats["num_updates"]))
                status.first = status.first or status.last
                total = status.total
                if total is not None:
                    self.totals[run.system.name] = total
                    self.remaining[run.name] = max(0, total - status.last[1])

    def end(self, run: Run, text: str, succeeded: bool) -> None:
        """A run has ended."""
        with self.lock:
            status = self.statuses.pop(run.name)
            self.measured[run.system.name] = self.measurement(run.system.name, [status])
            self.remaining.pop(run.name, None)
            if succeeded and status.last[1]:
                self.totals[run.system.name] = status.last[1]
            self.done += succeeded
        self.say(f"[{clock()}] {text}")

    def draw(self) -> None:
        """Print the state of all running runs if enough time has passed since the last time."""
        now = time.monotonic()
        if now < self.next_message:
            return
        self.next_message = now + (TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS)
        with self.lock:
            lines = [
                status.line(self.seconds_per_update(status.run.system.name))
                for status in self.statuses.values()
            ]
            left = self.seconds_left()
            about = "" if left is None else f", about {duration(left)} left"
            lines.append(f"{self.done} of {len(self.runs)} runs done{about}")
            if self.is_terminal:
                self.erase()
                width = shutil.get_terminal_size().columns - 1
                text = "\n".join(line[:width] for line in lines)
                self.lines_drawn = len(lines)
            else:
                text = f"[{clock()}] {'; '.join(lines)}"
            print(text, file=self.stream, flush=True)

    def close(self) -> None:
        """Remove the block for good."""
        with self.lock:
            self.erase()

    def erase(self) -> None:
        """Remove the block."""
        if self.lines_drawn:
            print(f"\033[{self.lines_drawn}A\033[J", end="", file=self.stream)
            self.lines_drawn = 0

    def measurement(self, system: str, statuses: Sequence[Status]) -> tuple[float, int]:
        """Seconds and number of the updates of a system, running trainings included."""
        seconds, updates = self.measured.get(system, (0.0, 0))
        for status in statuses:
            if status.run.system.name == system and status.first is not None:
                seconds += status.last[0] - status.first[0]
                updates += status.last[1] - status.first[1]
        return seconds, updates

    def seconds_per_update(self, system: str) -> float | None:
        """Measured seconds for an update of a system, or of all systems if there are none."""
        running = list(self.statuses.values())
        seconds, updates = self.measurement(system, running)
        if not updates:
            all_systems = {run.system.name for run in self.runs}
            for other in all_systems:
                of_other = self.measurement(other, running)
                seconds, updates = seconds + of_other[0], updates + of_other[1]
        return seconds / updates if updates else None

    def seconds_left(self) -> float | None:
        """Estimate of the time for all remaining updates; None while a part of it is unknown."""
        each = []
        for run in self.runs:
            per_update = self.seconds_per_update(run.system.name)
            updates = self.remaining.get(run.name, 0)
            if updates is None:
                updates = self.totals.get(run.system.name)
            if per_update is None or updates is None:
                return None
            each.append(updates * per_update)
        # The longest training cannot be divided.
        return max([sum(each) / self.jobs, *each])


def clock() -> str:
    """The time of day."""
    return time.strftime("%H:%M:%S")


def duration(seconds: float) -> str:
    """A time in hours and minutes, or in minutes and seconds."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes}:{seconds:02} min"
