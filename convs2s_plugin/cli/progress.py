"""A line of progress on standard error."""

import sys
import time
from typing import TextIO

SCREEN_SECONDS, LOG_SECONDS = 0.5, 30.0
# Units between two looks at the clock.
STEP = 1000


class Progress:
    """Shows how far a long input is read: often on a screen, seldom in a log.

    Args:
        unit: what is counted, e.g. "sentence pairs".
        stream: where the line goes (default: standard error).
    """

    def __init__(self, unit: str, stream: TextIO | None = None):
        self.unit, self.stream = unit, stream or sys.stderr
        self.screen = self.stream.isatty()
        self.start = time.monotonic()
        self.interval = SCREEN_SECONDS if self.screen else LOG_SECONDS
        self.next = self.start + self.interval
        self.open_line = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.open_line:
            print(file=self.stream, flush=True)

    def say(self, text: str) -> None:
        """Show a text now; on a screen the next one replaces it."""
        now = time.monotonic()
        self.next = now + self.interval
        seconds = int(now - self.start)
        before, after = ("\r\033[K", "") if self.screen else ("", "\n")
        line = f"{before}[{seconds // 60}:{seconds % 60:02}] {text}{after}"
        print(line, end="", file=self.stream, flush=True)
        self.open_line = self.screen

    def reached(self, number: int) -> None:
        """Show the number of units that are done, where it is time to."""
        if number % STEP == 0 and time.monotonic() >= self.next:
            self.say(f"{number:,} {self.unit}")
