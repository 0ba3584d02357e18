"""Jobs of Slurm: what is submitted, to a sbatch that notes it, and how a job saves and goes on."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convs2s.cli.commands import full_parser
from convs2s.common.errors import UserError
from convs2s.experiments import slurm
from convs2s.experiments.slurm import Command, minutes, read_options

from .words import ALL, change

pytest.importorskip("submitit")

SBATCH = """#!/bin/sh
if grep -q partition=nope "$1"
then
  echo "sbatch: error: invalid partition specified: nope" >&2
  exit 1
fi
echo x >> submitted
cp "$1" "$(wc -l < submitted).sh"
echo "Submitted batch job $(wc -l < submitted)"
"""


@pytest.fixture
def cluster(folder, monkeypatch):
    """Programs of Slurm that submit nothing; the file "queue" has the jobs in the queue."""
    programs = folder / "slurm_bin"
    programs.mkdir()
    (folder / "queue").touch()
    for name, text in (
        ("sbatch", SBATCH),
        ("srun", "#!/bin/sh\n"),
        ("squeue", "#!/bin/sh\ncat queue\n"),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def scripts(folder):
    """The options in the scripts of all jobs, in their order."""
    found = []
    for number in range(1, 1 + len(list(folder.glob("*.sh")))):
        text = (folder / f"{number}.sh").read_text()
        found.append(dict(re.findall(r"^#SBATCH --([\w-]+)=?(.*)$", text, re.MULTILINE)))
    return found


def test_jobs_of_an_experiment(start, cluster):
    change(cluster, "{arch: other}", "{arch: other}\n    gpus: 2\n    nodes: 3")
    options = ["partition=gpu", "time=1-12", "cpus-per-task=4"]
    code, printed = start("--launcher", "slurm", "--limit-updates", 4, "--slurm", *options)
    assert code == 0
    found = dict(re.findall(r"^(\S+): job (\S+)$", printed, re.MULTILINE))
    assert sorted(found) == sorted(ALL)
    # Trials are an array, and so are the seeds; runs with the models of one are alone.
    assert [found[name] for name in ("a.trial1", "a.trial2", "b_c.1", "b_c.2")] == [
        *("1_0", "1_1"),
        *("3_0", "3_1"),
    ]
    trials, finals, others, *last = scripts(cluster)
    assert trials["partition"] == "gpu" and trials["time"] == "2160" and "dependency" not in trials
    assert trials["array"] == "0-1%2" and trials["requeue"] == "" and trials["gpus-per-node"] == "1"
    assert (others["gpus-per-node"], others["nodes"], others["job-name"]) == ("2", "3", "b_c")
    assert finals["dependency"] == "afterok:1_0:1_1" and finals["kill-on-invalid-dep"] == "yes"
    assert [each["dependency"] for each in last] == ["afterok:2_0", "afterok:2_1"]
    text = (cluster / "3.sh").read_text()
    assert "--nodes=1 --ntasks=1 --overlap" in text and "--cpus-per-task=4" in text

    # What is in the queue or done is not submitted again.
    (cluster / "queue").write_text("\n".join([*found.values()][:-1]) + "\n999\n")
    code, printed = start("--launcher", "slurm", "--slurm", "gpus-per-node=0")
    assert code == 0 and printed.count("is in the queue") == 7
    assert len(scripts(cluster)) == 6 and "gpus-per-node" not in scripts(cluster)[-1]
    assert scripts(cluster)[-1]["dependency"] == f"afterok:{found['a.2']}"


def test_a_job_does_one_run_with_the_same_options(start, cluster):
    from submitit.core.utils import DelayedSubmission

    start("--launcher", "slurm", "--systems", "b, c", "--seeds", 5, "--text", "text")
    (path,) = (cluster / "words_out" / "slurm").glob("*_submitted.pkl")
    words = DelayedSubmission.load(path).function.words
    assert words[:4] == [sys.executable, "-m", "convs2s", "experiment"]
    args = full_parser().parse_args(words[3:])
    assert (args.only, args.systems, args.seeds, args.text) == (
        "b_c.5",
        ["b, c"],
        [5],
        Path("text"),
    )
    assert args.file == cluster / "words.yaml" and args.out == cluster / "words_out"


def test_what_sbatch_refuses_is_a_sentence(start, cluster, capsys, monkeypatch):
    with pytest.raises(
        UserError, match=r"^sbatch refuses a\.trial1, a\.trial2: invalid partition "
    ):
        start("--launcher", "slurm", "--slurm", "partition=nope")
    assert "sbatch" not in capsys.readouterr().err
    (cluster / "slurm_bin/squeue").write_text("#!/bin/sh\necho 'squeue: error: down' >&2; exit 1\n")
    with pytest.raises(UserError, match=r"^squeue fails: down\."):
        start("--launcher", "slurm")
    (cluster / "slurm_bin/squeue").write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(UserError, match=r"^squeue fails: exit code 3\."):
        start("--launcher", "slurm")
    (cluster / "slurm_bin/squeue").unlink()
    monkeypatch.setenv("PATH", str(cluster / "slurm_bin"))
    with pytest.raises(UserError, match="needs Slurm, but there is no program squeue"):
        start("--launcher", "slurm")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--slurm", "time=1"], "--slurm time=1 needs --launcher slurm"),
        (["--launcher", "slurm", "--jobs", 2], "--jobs has no meaning with --launcher slurm"),
        (["--launcher", "slurm", "--run", "a.1"], "--run has no meaning with --launcher slurm"),
        (["--launcher", "slurm", "--list"], "--list has no meaning with --launcher slurm"),
        (["--run", "a.1", "--jobs", 2], "--jobs has no meaning with --run"),
        (["--run", "a.1", "--speed"], "--speed has no meaning with --run"),
        (["--list", "--tracker", "wandb"], "--tracker has no meaning with --list"),
        (["--report", "--comet", __file__], "--comet has no meaning with --report"),
        (["--launcher", "slurm", "--slurm", "time"], "--slurm has 'time': give KEY=VALUE"),
        (["--launcher", "slurm", "--slurm", "partitoin=a"], r"did you mean 'partition'"),
        (["--launcher", "slurm", "--slurm", "time=4h"], "--slurm has time=4h: give minutes, "),
        (["--launcher", "slurm", "--slurm", "gpus-per-node=2"], "it must be 0"),
    ],
)
def test_wrong_options(start, cluster, arguments, message):
    with pytest.raises(UserError, match=message):
        start(*arguments)
    assert not scripts(cluster)


def test_without_submitit(start, cluster, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"needs submitit: run `pip install 'convs2s-plugin\[slurm"):
        start("--launcher", "slurm")


def test_times():
    given = ["90", "1:30", "8:00:00", "1-12", "1-0:30", "0:10"]
    assert [minutes(time) for time in given] == [90, 2, 480, 2160, 1470, 1]
    assert read_options(["time=90", "qos=low"]) == {"time": "90", "qos": "low"}


# Waits for SIGUSR2 the first time, and ends with an exit code the second time.
PROGRAM = """
import pathlib, signal, sys
path = pathlib.Path("saved")
if path.exists():
    print("goes on")
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGUSR2, lambda *_: (path.touch(), sys.exit(130)))
pathlib.Path("started").touch()
signal.pause()
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_saves_and_goes_on(tmp_path, code):
    """As submitit's own executor for one machine starts and signals it."""
    from submitit import LocalExecutor

    executor = LocalExecutor(tmp_path / "jobs", max_num_timeout=slurm.MAX_REQUEUES)
    executor.update_parameters(timeout_min=1, signal_delay_s=1)
    words = [sys.executable, "-c", PROGRAM, str(code)]
    job = executor.submit(Command(words, str(tmp_path)))
    while not (tmp_path / "started").exists():
        time.sleep(0.05)
    (worker,) = subprocess.run(
        ["pgrep", "-f", f"submitit.core._submit {tmp_path}"], capture_output=True, text=True
    ).stdout.split()[-1:]
    subprocess.run(["kill", "-USR2", worker], check=True)
    while job.state == "RUNNING":
        time.sleep(0.05)
    assert (tmp_path / "saved").exists()
    log = job.stdout()
    assert log.count(" -c ") == 2 and "goes on" in log
    assert (job.paths.result_pickle.exists()) == (code == 0)
