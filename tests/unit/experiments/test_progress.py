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
    shown = progress.Progress(RUNS, [], stream)
    shown.start(RUNS[0])
    shown.draw()
    assert "\na.1: starts\n0 of 3 runs done:   0%|" in stream.getvalue()
    shown.step(RUNS[0], "trains", log(10))
    clock[0] = 20.0
    shown.step(RUNS[0], "trains", log(20))
    shown.draw()
    *_, run, summary = stream.getvalue().splitlines()
    assert run.startswith("\033[2A\033[Ja.1:  20%|")
    assert run.endswith("| 20/100 [00:20<02:40,  2.00s/ updates, loss 2.5, 1,234 tokens/s]")
    # Ten updates in 20 seconds; 80 + 100 + 50 are left.
    assert summary.startswith("0 of 3 runs done:   8%|")
    assert summary.endswith("| 20/250 [00:20<07:40,  2.00s/ updates]")
    shown.step(RUNS[0], "translates valid")
    shown.end(RUNS[0], "a.1 done", True)
    shown.start(RUNS[2])
    shown.step(RUNS[2], "trains", log(10))
    clock[0] = 21.0
    shown.draw()
    *_, run, summary = stream.getvalue().splitlines()
    assert "b.1:  20%|" in run and summary.startswith("1 of 3 runs done:  18%|")
    assert all(len(line) < 100 for line in stream.getvalue().splitlines())
    shown.close()
    assert stream.getvalue().endswith("\033[2A\033[J")


def test_log_file(clock):
    stream = io.StringIO()
    shown = progress.Progress(RUNS, ["a.1"], stream)
    shown.start(RUNS[1])
    shown.step(RUNS[1], "trains", log(5))
    shown.draw()
    assert stream.getvalue().endswith("] a.2 starts\n")
    clock[0] = 60.0
    shown.step(RUNS[1], "trains", log(35))
    shown.draw()
    assert stream.getvalue().endswith(
        "] a.2:  35% 35/100 [01:00<02:10,  2.00s/ updates, loss 2.5, 1,234 tokens/s]; "
        "1 of 3 runs done:  23% 35/150 [01:00<03:50,  2.00s/ updates]\n"
    )
    shown.step(RUNS[1], "averages")
    clock[0] = 120.0
    shown.draw()
    assert "] a.2: averages; 1 of 3 runs done" in stream.getvalue()


def test_a_training_that_epochs_end(clock):
    stream = io.StringIO()
    runs = [Run(A, 1, None, {"max-epoch": 8}), Run(A, 2, None, {"max-epoch": "8"})]
    shown = progress.Progress(runs, [], stream)
    shown.start(runs[0])
    shown.step(runs[0], "trains", log(10))
    clock[0] = 60.0
    shown.draw()
    assert "epoch 1, loss 2.5" in stream.getvalue()
    # No number of updates is known yet.
    assert stream.getvalue().endswith("; 0 of 2 runs done\n")
    clock[0] = 120.0
    shown.step(runs[0], "trains", {**log(20), "epoch": 2.0, "update": 1.6})
    shown.draw()
    # 20 updates in 1.6 epochs are 100 in 8.
    assert " 20/100 [" in stream.getvalue() and "epoch 2, loss 2.5" in stream.getvalue()
    assert " 20/200 [" in stream.getvalue()
    # It ends before its last epoch.
    shown.step(runs[0], "trains", {**log(50), "epoch": 4.0, "update": 4.0})
    shown.end(runs[0], "a.1 done", True)
    clock[0] = 180.0
    shown.draw()
    assert "1 of 2 runs done:  50% 50/100 [" in stream.getvalue()


def test_a_run_without_a_training_of_its_own(clock):
    """It takes the model of a trial, and has no updates to wait for."""
    stream = io.StringIO()
    shown = progress.Progress(RUNS[:2], [], stream)
    shown.start(RUNS[0])
    shown.end(RUNS[0], "a.1 done", True)
    clock[0] = 60.0
    shown.draw()
    assert "1 of 2 runs done:   0% 0/100 [" in stream.getvalue()
