"""Progress messages on a terminal and in a log file."""

from io import StringIO

from convs2s.cli import progress as progress_module
from convs2s.cli.progress import Progress


def test_progress(monkeypatch):
    """A message every half second on a terminal, every half minute in a log file."""
    now = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    log, screen = StringIO(), StringIO()
    screen.isatty = lambda: True
    for stream in (log, screen):
        now[0] = 100.0
        with Progress("lines", stream) as progress:
            for number in range(1, 100_001):
                now[0] += 0.001
                progress.update(number)
    assert log.getvalue().splitlines() == [
        *("[0:30] 30,000 lines", "[1:00] 60,000 lines", "[1:30] 90,000 lines")
    ]
    shown = screen.getvalue()
    assert shown.count("\r") == 100 and shown.endswith("\r\033[K[1:40] 100,000 lines\n")
