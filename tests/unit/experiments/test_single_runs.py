"""Runs that commands of their own carry out, at the same time and in any order."""

import errno
import json
import os
import re
import signal
import threading
import time

import pytest

from convs2s.common.errors import UserError
from convs2s.common.locks import shared_lock
from convs2s.experiments import results as results_of_runs
from convs2s.experiments import run, workflow
from convs2s.experiments.commands import Machine
from convs2s.experiments.run import Job

from .words import ALL, change, commands, results


def states(printed):
    """The states in the JSON of --list, by the name of the run."""
    return {each["run"]: each["state"] for each in json.loads(printed)}


def lock(folder, name):
    """The lock of a run, as another process holds it."""
    return shared_lock(str(folder / "words_out/locks/runs" / name), f"The run {name}")


def test_runs_one_by_one(start, folder):
    code, printed = start("--list", "--json")
    assert code == 0 and set(states(printed).values()) == {"waiting"}
    assert not (folder / "words_out").exists()
    runs = {each["run"]: each for each in json.loads(printed)}
    assert list(runs) == ["a.trial1", "a.trial2", "a.1", "a.2", "b_c.1", "b_c.2", "d.1", "d.2"]
    assert runs["a.2"] == {
        "run": "a.2",
        "state": "waiting",
        "needs": ["a.trial1", "a.trial2"],
        "gpus": 1,
        "nodes": 1,
        "minutes": None,
    }
    assert runs["d.1"]["needs"] == ["a.1"]
    for number, name in enumerate(runs, start=1):
        code, printed = start("--run", name)
        assert code == 0 and f"{number} of 8 runs are done." in printed
        assert ("| B " in printed) == (number == 8)
    assert sorted(results(folder)) == sorted(ALL)
    assert (folder / "words_out/table.md").exists()
    before = commands(folder)
    assert "The run a.1 was finished before." in start("--run", "a.1")[1]
    assert start()[0] == 0 and commands(folder) == before
    code, printed = start("--list")
    assert code == 0 and "| a.trial1 |  done |" in printed


def test_a_run_needs_others(start, folder):
    start("--run", "a.trial2")
    with pytest.raises(UserError, match=r"The run a\.1 needs a\.trial1, which must be done first"):
        start("--run", "a.1")
    with pytest.raises(UserError, match=r"--run is a\.trail2, .*did you mean 'a\.trial2'"):
        start("--run", "a.trail2")
    with pytest.raises(UserError, match="--json needs --list"):
        start("--json")
    assert list(results(folder)) == ["a.trial2"]


def test_a_failed_run_is_in_the_list(start, folder):
    change(folder, "{arch: other}", "{arch: other, lr: 666}")
    code, printed = start("--run", "b_c.1")
    assert code == 1 and "the reason" in printed
    assert states(start("--list", "--json")[1])["b_c.1"] == "failed"
    change(folder, ", lr: 666", "")
    assert start("--run", "b_c.1")[0] == 0
    found = {each["run"]: each for each in json.loads(start("--list", "--json")[1])}
    assert found["b_c.1"]["state"] == "done"
    assert found["b_c.2"]["minutes"] == pytest.approx(found["b_c.1"]["minutes"])


def test_a_run_of_another_process_is_not_done_twice(start, folder):
    start("--run", "b_c.2")
    with lock(folder, "b_c.1"):
        assert states(start("--list", "--json")[1])["b_c.1"] == "running"
        owner = f"The run b_c.1 is in use by process {os.getpid()} on "
        with pytest.raises(UserError, match=owner):
            start("--run", "b_c.1")
    assert list(results(folder)) == ["b_c.2"]


@pytest.mark.parametrize("ending", ["done", "failed", "killed"])
def test_an_experiment_waits_for_runs_of_others(start, folder, ending, monkeypatch):
    """It takes their results and failures, and does what they leave."""
    start("--run", "b_c.1")
    own = folder / "words_out/runs/b_c.1"
    if ending != "done":
        (own / "result.json").unlink()
    result = own / "result.json"
    text = result.read_text() if ending == "done" else ""
    result.unlink(missing_ok=True)
    before = len(commands(folder))
    asked = threading.Event()
    say = workflow.Progress.say

    def spy(self, text):
        if "in use by" in text:
            asked.set()
        say(self, text)

    monkeypatch.setattr(workflow.Progress, "say", spy)

    def other():
        with lock(folder, "b_c.1"):
            asked.wait()
            if ending == "done":
                result.write_text(text)
            elif ending == "failed":
                (own / "failed.txt").write_text("the disk\n")

    thread = threading.Thread(target=other)
    thread.start()
    while not (folder / "words_out/locks/runs/b_c.1.lease").exists():
        time.sleep(0.01)
    code, printed = start("--systems", "b, c")
    thread.join()
    assert "The run b_c.1 is in use by process" in printed
    assert code == (ending == "failed") and ("b_c.1 failed: the disk" in printed) == code
    trained = [line for line in commands(folder)[before:] if "fairseq-train" in line]
    assert len(trained) == 1 and "b_c.2" in trained[0]
    assert ("b_c.1" in results(folder)) == (ending != "failed")


def test_data_that_another_process_prepares_is_waited_for(start, folder):
    path = folder / "words_out/locks/data"
    ready = threading.Event()

    def other():
        with shared_lock(str(path), "The data"):
            ready.set()
            time.sleep(3)
            assert not (folder / "words_out/data").exists()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    code, printed = start("--run", "b_c.1")
    thread.join()
    assert code == 0 and "this command waits" in printed and list(results(folder)) == ["b_c.1"]


def test_a_full_disk_is_a_sentence_and_the_run_goes_on_later(start, folder, monkeypatch):
    with monkeypatch.context() as full:

        def fail(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        full.setattr(results_of_runs, "write_lines", fail)
        full.setattr(Job, "average", fail)
        code, printed = start("--run", "b_c.1")
    assert code == 1 and "No space left on device" in printed and "Traceback" not in printed
    before = len(commands(folder))
    assert start("--run", "b_c.1")[0] == 0 and list(results(folder)) == ["b_c.1"]
    assert not any("fairseq-train" in line for line in commands(folder)[before:])


@pytest.fixture(params=["", "nohup"])
def ctrl_c(request):
    """Ctrl-C is ignored, as in the background of a shell, or not."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN if request.param else signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_of_a_scheduler_saves(start, folder, ctrl_c, number):
    """The programs get Ctrl-C, with which fairseq-train saves, and nothing counts as failed."""
    log = folder / "words_out/runs/b_c.1/train.log"
    (folder / "wait").touch()

    def announce():
        while not (log.exists() and "valid" in log.read_text()):
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=announce)
    thread.start()
    code, _ = start("--run", "b_c.1")
    thread.join()
    assert code == workflow.INTERRUPTED and not results(folder)
    assert "KeyboardInterrupt" in log.read_text()
    (folder / "wait").unlink()
    assert states(start("--list", "--json")[1])["b_c.1"] == "waiting"
    assert start("--run", "b_c.1")[0] == 0 and "@ 2 updates" in log.read_text()


def test_several_workers_are_in_the_command(start, folder):
    change(folder, "{arch: other}", "{arch: other}\n    gpus: 2")
    code, printed = start("--systems", "b, c", "--dry-run")
    assert code == 0 and printed.count("torchrun --standalone --nproc-per-node 2 --no-python") == 2
    change(folder, "gpus: 2", "gpus: 2\n    nodes: 3")
    code, printed = start("--systems", "b, c", "--dry-run")
    assert printed.count("srun --overlap") == 2 and "--nnodes 3" in printed
    code, printed = start("--systems", "b, c", "--seeds", 1)
    assert code == 1 and "systems.b, c.nodes is 3: the training run must be started in" in printed


def test_threads_and_gpus_are_those_of_the_runs_that_are_left(start, folder, monkeypatch):
    """Without a GPU, the workers of a run share its cores, and those of others do not."""
    asked = []

    def find_machine(jobs, dry=False, each=1):
        asked.append(each)
        return Machine("no device", ("--cpu",), ({"OMP_NUM_THREADS": "8"},) * jobs)

    monkeypatch.setattr(workflow, "find_machine", find_machine)
    monkeypatch.setattr(run, "launched", lambda command, *_: command)
    change(folder, "{arch: other}", "{arch: other}\n    gpus: 4")
    assert start("--seeds", 1)[0] == 0
    threads = {}
    for line in (folder / "words_out/commands.log").read_text().splitlines():
        if "fairseq-" in line:
            name = re.search(r"runs/([^/ ]*)/", line)[1], "fairseq-train" in line
            threads[name] = re.search(r"OMP_NUM_THREADS=(\d+)", line)[1]
    assert threads["b_c.1", True] == "2" and threads["b_c.1", False] == "8"
    assert {count for (name, _), count in threads.items() if name != "b_c.1"} == {"8"}
    (folder / "words_out/runs/a.1/result.json").unlink()
    assert start("--seeds", 1)[0] == 0
    # The second time, only a.1 and d.1 are left.
    assert asked == [4, 1]
