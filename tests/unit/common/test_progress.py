"""Progress messages on a terminal and in a log file."""

from io import StringIO

import pytest
import tqdm.std

from convs2s.common.progress import show_progress


@pytest.fixture
def clock(monkeypatch):
    """The time that tqdm reads, in a list."""
    now = [100.0]
    monkeypatch.setattr(tqdm.std, "time", lambda: now[0])
    return now


@pytest.mark.parametrize("counted", [False, True])
def test_messages(clock, counted):
    """One every half second on a terminal, one every half minute in a log file."""
    log, screen = StringIO(), StringIO()
    screen.isatty = lambda: True
    for stream in (log, screen):
        clock[0] = 100.0
        if counted:
            with show_progress(unit="lines", stream=stream) as progress:
                for _ in range(100_000):
                    clock[0] += 0.001
                    progress.update()
        else:
            for _ in show_progress(range(100_000), "lines", stream=stream, desc="Reading"):
                clock[0] += 0.001
    seen = [line.rpartition("| ")[2] for line in log.getvalue().splitlines() if line]
    seen = [line.removeprefix("Reading: ") for line in seen]
    if counted:
        assert seen[0] == "30000 lines [00:30, 1000.00 lines/s]" and len(seen) == 3
    else:
        assert seen == [
            "30000/100000 [00:30<01:10, 1000.00 lines/s]",
            "60000/100000 [01:00<00:40, 1000.00 lines/s]",
            "90000/100000 [01:30<00:10, 1000.00 lines/s]",
        ]
    shown = screen.getvalue()
    assert shown.count("\r") == 201 and shown.endswith("lines/s]\n") and "100000" in shown


def test_short_work_shows_nothing():
    stream = StringIO()
    assert list(show_progress(range(5), "lines", stream=stream)) == [0, 1, 2, 3, 4]
    assert not stream.getvalue()
