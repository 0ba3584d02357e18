"""The devices of a machine, and their share for each of several runs."""

import pytest
import torch

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
    assert machine.environments == ({"OMP_NUM_THREADS": threads},) * jobs
