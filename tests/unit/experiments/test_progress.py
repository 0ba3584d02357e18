"""Progress in a terminal and in a log file, and the estimate of the time left."""

import io

import pytest

from convs2s.experiments import progress
from convs2s.experiments.file import System
from convs2s.experiments.runs import Run

A, B = (System(name, name) for name in "ab")
RUNS = [Run(A, 1, 100, {}), Run(A, 2, 100, {}), Run(B, 1, 50, {})]


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, in a list of one."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def log(update):
    return {"num_updates": float(update), "loss": 2.5, "wps": 1234.0}


def test_terminal(clock):
    stream = Terminal()
    shown = progress.Progress(RUNS, [], 2, stream)
    shown.start(RUNS[0])
    shown.draw()
    assert stream.getvalue().endswith("a.1: starts\n0 of 3 runs done\n")
    shown.step(RUNS[0], "trains", log(10))
    clock[0] = 20.0
    shown.step(RUNS[0], "trains", log(20))
    shown.draw()
    # 2 seconds for each of 80 + 100 + 50 updates, two runs at a time.
    assert stream.getvalue().endswith(
        "\033[2A\033[Ja.1: update 20/100, loss 2.5, 1,234 tokens/s, 2:40 min left\n"
        "0 of 3 runs done, about 3:50 min left\n"
    )
    shown.step(RUNS[0], "translates valid")
    shown.end(RUNS[0], "a.1 done", True)
    shown.start(RUNS[2])
    shown.step(RUNS[2], "trains", log(10))
    clock[0] = 21.0
    shown.step(RUNS[2], "trains", log(20))
    shown.draw()
    # a: 100 updates of 2 seconds; b: 30 updates of 0.1 seconds. One training cannot be divided.
    assert stream.getvalue().endswith("1 of 3 runs done, about 3:20 min left\n")
    shown.close()
    assert stream.getvalue().endswith("\033[2A\033[J")


def test_log_file(clock):
    stream = io.StringIO()
    shown = progress.Progress(RUNS, ["a.1"], 1, stream)
    shown.start(RUNS[1])
    shown.draw()
    assert stream.getvalue().endswith("] a.2 starts\n")
    clock[0] = 60.0
    shown.draw()
    assert stream.getvalue().endswith("] a.2: starts; 1 of 3 runs done\n")


def test_a_training_that_epochs_end(clock):
    stream = Terminal()
    runs = [Run(A, 1, None, {"max-epoch": 8}), Run(A, 2, None, {"max-epoch": "8"})]
    shown = progress.Progress(runs, [], 1, stream)
    shown.start(runs[0])
    shown.step(runs[0], "trains", log(10))
    clock[0] = 1.0
    shown.draw()
    assert stream.getvalue().endswith(
        "a.1: epoch 1/8, update 10, loss 2.5, 1,234 tokens/s\n0 of 2 runs done\n"
    )
    clock[0] = 20.0
    shown.step(runs[0], "trains", {**log(20), "epoch": 2, "update": 1.6})
    shown.draw()
    # 20 updates in 1.6 epochs are 100 in 8. An update takes 2 seconds.
    assert stream.getvalue().endswith(
        "a.1: epoch 2/8, update 20, loss 2.5, 1,234 tokens/s, 2:40 min left\n"
        "0 of 2 runs done, about 6:00 min left\n"
    )
    # It ends before its last epoch.
    shown.step(runs[0], "trains", {**log(50), "epoch": 4, "update": 4.0})
    shown.end(runs[0], "a.1 done", True)
    shown.draw()
    clock[0] = 21.0
    shown.draw()
    assert stream.getvalue().endswith("1 of 2 runs done, about 0:25 min left\n")


def test_duration():
    assert [progress.duration(seconds) for seconds in (5, 65.9, 7260)] == [
        "0:05 min",
        "1:05 min",
        "2:01 h",
    ]
