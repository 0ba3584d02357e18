"""Commands with worker processes that are ended or stopped from outside."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.support.translation import DATA, FIXTURES, LINES

# A child process that is stopped for two seconds is killed.
IMPATIENT = """
import sys
from convs2s.cli import main
from convs2s.common import signals
signals.STOPPED_SECONDS = 1.0
sys.exit(main())
"""

# Two workers translate the lines this many times for some seconds.
TIMES = 4000


def start(name, folder, hangup=signal.SIG_DFL, program=("-m", "convs2s")):
    """A command with two workers that is in the middle of its work, and its workers.

    Args:
        program: arguments of Python that run the command.
    """
    if name == "translate":
        (folder / "input").write_text(
            "".join(f"{line}\n" for line in LINES * TIMES), encoding="utf-8"
        )
        options = ("--path", FIXTURES / "convs2s.pt", "--data", DATA, "--raw", "--device", "cpu")
        arguments = (*options, "--input", folder / "input", "--output", folder / "output")
    else:
        pytest.importorskip("sacremoses")
        texts = [folder / f"corpus.{language}" for language in ("de", "en")]
        for text in texts:
            lines = (f"Satz {i} , mit {i % 977} Wörtern .\n" for i in range(100_000))
            text.write_text("".join(lines), encoding="utf-8")
        arguments = ("--train", *texts, "--out", folder / "out", "--tokenizer", "moses")
    # A command inherits what is ignored.
    before = signal.signal(signal.SIGHUP, hangup)
    process = subprocess.Popen(
        [sys.executable, *program, name, *map(str, arguments), "--workers", "2", "-q"],
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGHUP, before)
    parent = psutil.Process(process.pid)
    end = time.monotonic() + 60
    while len(workers := parent.children()) < 2 or min(map(cpu, workers)) < 0.2:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    return process, workers


def cpu(process):
    return process.cpu_times().user


def gone(processes, seconds=5):
    return not psutil.wait_procs(processes, timeout=seconds)[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("name", ["translate", "prepare"])
def test_workers_end_with_the_command(name, number, tmp_path):
    process, workers = start(name, tmp_path)
    process.send_signal(number)
    errors = process.communicate(timeout=30)[1]
    in_order = number != signal.SIGKILL
    assert process.returncode == (128 + number if in_order else -number)
    assert gone(workers) and errors == ""
    if in_order:
        assert not list(tmp_path.glob("output*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["translate", "prepare"])
def test_a_worker_that_is_stopped_ends_the_command(name, tmp_path):
    process, workers = start(name, tmp_path, program=("-c", IMPATIENT))
    workers[0].suspend()
    errors = process.communicate(timeout=60)[1]
    assert process.returncode in (1, 2)
    assert errors.startswith(f"convs2s {name}: error: ") and "stopped" in errors
    assert errors.count("\n") == 1 and gone(workers)


@pytest.mark.slow
def test_a_command_that_is_stopped_with_its_workers_goes_on(tmp_path):
    process, workers = start("translate", tmp_path, program=("-c", IMPATIENT))
    for each in (psutil.Process(process.pid), *workers):
        each.suspend()
    time.sleep(3)
    for each in (psutil.Process(process.pid), *workers):
        each.resume()
    assert process.communicate(timeout=120)[1] == "" and process.returncode == 0
    translations = (tmp_path / "output").read_text(encoding="utf-8")
    assert translations.count("\n") == len(LINES) * TIMES


def test_a_hangup_that_is_ignored_stays_so(tmp_path):
    """As under nohup."""
    process, workers = start("translate", tmp_path, signal.SIG_IGN)
    process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM and gone(workers)
