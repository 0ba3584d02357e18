"""Progress messages on standard error."""

import sys
import time
from typing import TextIO

# Seconds between two messages, on a terminal and in a log file.
TERMINAL_SECONDS, LOG_SECONDS = 0.5, 30.0
# The clock is read once per so many units.
STEP = 1000


class Progress:
    """A context manager that prints how much of a long input has been processed.

    On a terminal, each message replaces the previous one.

    Args:
        unit: name of the units that are counted, e.g. "sentence pairs".
        stream: text stream to print to (default: standard error).
    """

    def __init__(self, unit: str, stream: TextIO | None = None):
        self.unit, self.stream = unit, stream or sys.stderr
        self.is_terminal = self.stream.isatty()
        self.start = time.monotonic()
        self.interval = TERMINAL_SECONDS if self.is_terminal else LOG_SECONDS
        self.next_message = self.start + self.interval
        self.open_line = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.open_line:
            print(file=self.stream, flush=True)

    def show(self, text: str) -> None:
        """Print a message now."""
        now = time.monotonic()
        self.next_message = now + self.interval
        seconds = int(now - self.start)
        before, after = ("\r\033[K", "") if self.is_terminal else ("", "\n")
        line = f"{before}[{seconds // 60}:{seconds % 60:02}] {text}{after}"
        print(line, end="", file=self.stream, flush=True)
        self.open_line = self.is_terminal

    def is_due(self) -> bool:
        """Whether enough time has passed since the last message."""
        return time.monotonic() >= self.next_message

    def update(self, number: int) -> None:
        """Print the number of processed units if a message is due."""
        if number % STEP == 0 and self.is_due():
            self.show(f"{number:,} {self.unit}")
