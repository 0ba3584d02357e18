"""The devices of a machine, and their share for each of several runs."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.experiments.commands import find_machine


@pytest.mark.parametrize(
    ("cores", "jobs", "name", "threads"), [(4, 2, "4 cores", "2"), (1, 2, "1 core", "1")]
)
def test_cores_are_shared(cores, jobs, name, threads, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine = find_machine(jobs)
    assert machine.device == f"CPU, {name}, AVX512"
    assert [each["OMP_NUM_THREADS"] for each in machine.environments] == [threads] * jobs


@pytest.mark.parametrize(
    ("visible", "options", "slots"),
    [
        (None, ("--distributed-world-size", "1"), ["0", "1", "0"]),
        ("3,5", ("--distributed-world-size", "1"), ["3", "5", "3"]),
        ("", ("--cpu",), [None] * 3),
    ],
)
@pytest.mark.parametrize("dry", [False, True])
def test_gpus_are_shared(visible, options, slots, dry, monkeypatch):
    """A dry run asks the driver, and any other torch."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: visible != "")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "some GPU")
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: [1, 2])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    machine = find_machine(3, dry)
    assert machine.options == options
    assert [each.get("CUDA_VISIBLE_DEVICES") for each in machine.environments] == slots


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("given", [None, "0"])
def test_faults_of_fairseq_are_fixed_for_its_own_models(given, gpus, monkeypatch):
    """What the user has set stays."""
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: [1] * gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CONVS2S_COMPAT", raising=False)
    if given is not None:
        monkeypatch.setenv("CONVS2S_COMPAT", given)
    for environment in find_machine(2, dry=True).environments:
        assert environment.get("CONVS2S_COMPAT") == (None if given else "all")


def test_runs_with_several_gpus(monkeypatch):
    """A dry run may be on another machine."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "some GPU")
    monkeypatch.setattr("pathlib.Path.glob", lambda *_: range(4))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slots = [each["CUDA_VISIBLE_DEVICES"] for each in find_machine(3, each=2).environments]
    assert slots == ["0,1", "2,3", "0,1"]
    with pytest.raises(UserError, match="A system has 5 gpus, but this machine has 4"):
        find_machine(1, each=5)
    find_machine(1, dry=True, each=5)


def test_workers_share_the_cores_of_a_run(monkeypatch):
    """Those of a run with one worker have all cores of its slot."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    machine = find_machine(2, each=4)
    threads = [machine.environment(1, workers)["OMP_NUM_THREADS"] for workers in (1, 2, 8)]
    assert threads == ["4", "2", "1"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS" not in find_machine(2, each=4).environment(1, 4)
