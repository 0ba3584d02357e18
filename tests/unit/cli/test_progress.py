"""The line of progress on a screen and in a log."""

from io import StringIO

from convs2s_plugin.cli import progress as progress_module
from convs2s_plugin.cli.progress import Progress


def test_progress(monkeypatch):
    """Often on a screen, where a line replaces the one before; seldom in a log."""
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
