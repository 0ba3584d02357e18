"""Jobs of a real Slurm, with two nodes on this machine, end as if undisturbed, in every number.

It is skipped where slurmctld, slurmd or a running munged is missing.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from tests import ROOT
from tests.integration.test_several_workers import free_port
from tests.support.commands import assert_same_weights
from tests.support.killing import TIMES

from .test_killed_experiments import EXPERIMENT

pytest.importorskip("submitit")

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munge")
CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
SlurmUser={user}
SlurmdUser={user}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
KillWait=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 State=UNKNOWN
PartitionName=main Nodes=n1,n2 Default=YES State=UP
"""
LONGER = "  a: {updates: 150}\n  both: {ensemble: {a: 1}}\n"


def call(*words):
    """What a program of Slurm prints."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Starts Slurm, and ends all of its processes."""
    if any(shutil.which(name) is None for name in PROGRAMS) or os.getuid() != 0:
        pytest.skip("Slurm is not installed, or this user cannot start it")
    if subprocess.run(["munge", "-n"], capture_output=True).returncode:
        pytest.skip("munged does not run")
    folder = tmp_path / "slurm"
    for name in ("n1", "n2", "state"):
        (folder / name).mkdir(parents=True)
    ports = [free_port() for _ in range(3)]
    host = socket.gethostname()
    text = CONF.format(folder=folder, host=host, user="root", ports=ports)
    (folder / "slurm.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    servers = [subprocess.Popen(["slurmctld", "-D"], stderr=subprocess.DEVNULL)]
    for name in ("n1", "n2"):
        command = ["slurmd", "-D", "-N", name]
        servers.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    while "idle" not in subprocess.run(["sinfo"], capture_output=True, text=True).stdout:
        time.sleep(0.2)
    yield servers
    subprocess.run(["scancel", "-u", "root"], capture_output=True)
    for server in servers:
        kill(psutil.Process(server.pid))
        server.wait()


def kill(process):
    """Kill a process and all that it has started."""
    for each in [*process.children(recursive=True), process]:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def experiment(folder, *more):
    """Run the command in an interpreter of its own, as a job does; return what it prints."""
    command = [sys.executable, "-m", "convs2s", "experiment", "e.yaml", *more]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def results(folder):
    """The results of all runs without times and devices, and their translations."""
    found = {}
    for path in sorted((folder / "e_out/runs").glob("*/result.json")):
        result = json.loads(path.read_text())
        own = {*TIMES, "device"}
        found[path.parent.name] = {name: result[name] for name in result if name not in own}
        for text in path.parent.glob("*.hyp"):
            found[path.parent.name, text.name] = text.read_text()
    return found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_time_limit_preemption_and_a_killed_node(cluster, corpus, tmp_path):
    folders = [tmp_path / name for name in ("plain", "disturbed")]
    for folder in folders:
        (folder / "text").mkdir(parents=True)
        for path in corpus.glob("*.[de][en]"):
            shutil.copy(path, folder / "text")
        text = EXPERIMENT.replace("  a: {updates: 10}\n", LONGER)
        (folder / "e.yaml").write_text(text)
    plain, disturbed = folders
    experiment(plain)

    printed = experiment(disturbed, "--launcher", "slurm", "--slurm", "gpus-per-node=0", "time=60")
    job = printed.partition("a.1: job ")[2].split()[0]
    log = disturbed / "e_out/runs/a.1/train.log"
    output = disturbed / "e_out/slurm" / f"{job}_0_log.out"

    def wait_for(start):
        """Wait until the training has been started for the Nth time, and has saved since then."""
        while True:
            # A job that returns to the queue waits for two minutes.
            queue = call("squeue", "--noheader", "--format=%i %r")
            if f"{job} BeginTime" in queue:
                call("scontrol", "update", f"jobid={job}", "starttime=now")
            assert f"{job} " in queue, output.read_text()
            parts = log.read_text().split("training on 1 devices") if log.exists() else []
            if len(parts) == start + 1 and "Saved checkpoint" in parts[-1]:
                return
            time.sleep(0.1)

    wait_for(1)
    call("scancel", "--signal=USR2", job)
    wait_for(2)
    assert "Requeued job" in output.read_text()
    assert "Interrupted: saving after this update" in log.read_text()
    call("scontrol", "requeue", job)
    wait_for(3)
    node = call("squeue", "--noheader", "--format=%N", f"--job={job}").strip()
    # The processes of a job are not those of slurmd.
    steps = [p for p in psutil.process_iter(["name"]) if p.info["name"] == "slurmstepd"]
    steps = [p for p in steps if any(str(disturbed) in " ".join(c.cmdline()) for c in p.children())]
    assert steps
    for process in (psutil.Process(cluster[int(node[1])].pid), *steps):
        kill(process)
    call("scontrol", "update", f"nodename={node}", "state=down", "reason=killed")
    wait_for(4)
    while call("squeue", "--noheader"):
        time.sleep(0.2)

    assert {each["state"] for each in json.loads(experiment(disturbed, "--list", "--json"))} == {
        "done"
    }
    assert (disturbed / "e_out/table.md").exists()
    assert log.read_text().count("Loaded checkpoint") == 3
    assert results(disturbed) == results(plain)
    models = (folder / "e_out/runs/a.1/average.pt" for folder in folders)
    assert_same_weights(*models, atol=0, rtol=0)
