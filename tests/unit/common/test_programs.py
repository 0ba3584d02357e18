"""Commands in the form in which they are printed, and programs that are started."""

import re
import signal
import sys
import threading
import time

import pytest

from convs2s.common import programs
from convs2s.common.programs import ProgramFailed, Programs, relative_path

# Prints a line after each of three tenths of a second of work.
WORK = """
import time
for tenth in range(1, 4):
    while time.process_time() < tenth / 10:
        pass
    print(tenth, flush=True)
"""
# Catches Ctrl-C once, as an import may, also in a test run in the background, which ignores it.
CATCHES = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    open(sys.argv[1], "w").close()
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit("caught")
"""


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert relative_path(tmp_path / "a" / "b") == "a/b"
    assert relative_path(tmp_path) == "."
    assert relative_path(f"{tmp_path}b") == f"{tmp_path}b"
    assert relative_path("--option") == "--option"
    assert relative_path("/elsewhere/a") == "/elsewhere/a"


def run_work(folder, add_time):
    command = [sys.executable, "-c", WORK]
    Programs(folder / "commands.log").run(command, folder / "log", add_time=add_time)


def test_the_time_of_a_program_is_reported_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "REPORT_INTERVAL", 0.0)
    parts = []
    run_work(tmp_path, lambda *part: parts.append(part))
    # Three lines and the end; the last line may be read after the end.
    assert len(parts) in (3, 4)
    assert sum(cpu for _, cpu in parts[:3]) >= 0.27
    assert 0.3 <= sum(cpu for _, cpu in parts) < 3
    assert all(wall >= 0 and cpu >= 0 for wall, cpu in parts)


def test_the_time_of_a_short_program_is_reported_once(tmp_path):
    parts = []
    run_work(tmp_path, lambda *part: parts.append(part))
    assert len(parts) == 1
    ((wall, cpu),) = parts
    assert 0.3 <= cpu <= wall + 0.5


def test_warnings_about_code_of_fairseq_are_hidden_and_no_others(tmp_path, monkeypatch):
    texts = ["`torch.jit.script` is deprecated. Please switch.", "The data are odd."]
    code = f"import warnings\nfor text in {texts}: warnings.warn(text, FutureWarning)"
    command = [sys.executable, "-c", code]
    logs = [tmp_path / "log", tmp_path / "shown"]
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    Programs(tmp_path / "commands.log").run(command, logs[0])
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    Programs(tmp_path / "commands.log").run(command, logs[1])
    shown = [re.findall("FutureWarning: (.*)", log.read_text("utf-8")) for log in logs]
    assert shown == [texts[1:], texts]


@pytest.mark.parametrize("says, code", [("", -signal.SIGTERM), ("print(1, flush=True)", 1)])
def test_an_interrupted_program(says, code, tmp_path):
    """A program that has written nothing yet could lose Ctrl-C."""
    program, started = Programs(tmp_path / "commands.log"), tmp_path / "started"

    def interrupt():
        while not started.exists():
            time.sleep(0.01)
        program.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(ProgramFailed) as error:
        program.run([sys.executable, "-c", says + CATCHES, started], tmp_path / "log")
    thread.join()
    assert error.value.code == code
    assert ("caught" in error.value.output) == (code == 1)
