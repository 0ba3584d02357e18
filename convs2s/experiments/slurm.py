"""Submit runs as jobs of Slurm: each job is a command that does one run."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from ..common.errors import UserError, check_names
from .records import read_json, write_json
from .runs import Run
from .schedule import SIGNALED

# Options of sbatch that a user may give. The others follow from the runs.
OPTIONS = (
    "account comment constraint cpus-per-task exclude gpus-per-node gres mail-type mail-user mem "
    "mem-per-cpu mem-per-gpu nice nodelist partition qos reservation time"
).split()
# The limit of a job if the user gives none, and seconds before it at which a training run saves.
TIME, NOTICE = "24:00:00", 120
# A job may reach its limit this many times.
MAX_REQUEUES = 1000
# The forms of a time that sbatch knows: minutes[:seconds], hours:minutes:seconds, and
# days-hours[:minutes[:seconds]].
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


class Command:
    """What a job does. submitit stores it, so it holds only text.

    Args:
        words: the command.
        folder: the current folder.
    """

    def __init__(self, words: Sequence[str], folder: str):
        self.words, self.folder = [*words], folder
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> None:
        """Run the command, and exit with its exit code unless that is 0."""
        print(shlex.join(self.words), flush=True)
        self.process = subprocess.Popen(self.words, cwd=self.folder)
        code = self.process.wait()
        if code:
            # If a signal ended it, this process gets the signal as well, and puts the job back into
            # the queue.
            time.sleep(SIGNALED)
            raise SystemExit(code if code > 0 else 128 - code)

    def checkpoint(self) -> Any:
        """Let the command save, and return what continues from there; submitit calls it."""
        from submitit.helpers import DelayedSubmission

        if self.process is not None:
            self.process.send_signal(signal.SIGUSR2)
            # This interrupts the method above, which holds the lock of Popen.wait.
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        return DelayedSubmission(Command(self.words, self.folder))


def submit(
    runs: Sequence[Run],
    done: Collection[Run],
    command: Sequence[str],
    out: Path,
    options: Mapping[str, str],
) -> None:
    """Submit the runs that are not done, each after those that it needs, and print their jobs.

    Runs that differ only in their seeds or trials form a job array. Those whose jobs are already
    in the queue are not submitted again.

    Args:
        runs: all runs.
        done: those that are done.
        command: the command that does one run, without its name.
        out: the output folder, which gets the folder "slurm".
        options: options of sbatch, as ``read_options`` returns them.
    Raises:
        UserError: if there is no Slurm, no submitit, or sbatch refuses a job.
    """
    try:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError
    except ModuleNotFoundError as error:
        raise UserError(
            f"--launcher slurm needs {error.name}: run `pip install 'convs2s-plugin[slurm]'`."
        ) from error
    for program in ("sbatch", "srun", "squeue"):
        if shutil.which(program) is None:
            raise UserError(
                f"--launcher slurm needs Slurm, but there is no program {program}: start this "
                "command where jobs are submitted, or omit the option."
            )
    record = out / "slurm" / "jobs.json"
    queued = _queued()
    jobs: dict[str, str] = {
        name: job for name, job in (read_json(record) or {}).items() if job in queued
    }
    executor = SlurmExecutor(out / "slurm", max_num_timeout=MAX_REQUEUES)
    finished = {run.name for run in done}
    for run in runs:
        if run.name in jobs:
            print(f"{run.name}: job {jobs[run.name]} is in the queue")
    missing = [run for run in runs if run.name not in finished and run.name not in jobs]
    for group in _groups(missing):
        executor.update_parameters(**_parameters(group[0], jobs, finished, options))
        commands = [Command([*command, "--run", run.name], os.getcwd()) for run in group]
        try:
            # The error also has what sbatch printed.
            with redirect_stderr(StringIO()), executor.batch():
                submitted = [executor.submit(each) for each in commands]
        except FailedJobError as error:
            names = ", ".join(run.name for run in group)
            raise UserError(f"sbatch refuses {names}: {_reason(str(error))}.") from error
        for run, job in zip(group, submitted):
            jobs[run.name] = job.job_id
            print(f"{run.name}: job {job.job_id}")
        write_json(record, jobs)


def read_options(words: Iterable[str]) -> dict[str, str]:
    """The options of sbatch that a user gave as ``KEY=VALUE``.

    Raises:
        UserError: if one has no value, is not among OPTIONS, or has a wrong value.
    """
    options = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (sign and value):
            raise UserError(f"--slurm has '{word}': give KEY=VALUE, such as partition=gpu.")
        check_names([name], OPTIONS, "--slurm")
        options[name] = value
    minutes(options.get("time", TIME))
    if options.get("gpus-per-node", "0") != "0":
        raise UserError(
            f"--slurm has gpus-per-node={options['gpus-per-node']}: it must be 0, for machines "
            "without GPUs. The key gpus of a system says how many it needs."
        )
    return options


def minutes(time: str) -> int:
    """A time as sbatch reads it, in minutes, rounded up.

    Raises:
        UserError: if it is not a time.
    """
    match = _TIME.fullmatch(time)
    if match is None:
        raise UserError(
            f"--slurm has time={time}: give minutes, hours:minutes:seconds, or days-hours."
        )
    days, *rest = match.groups()
    numbers = [int(part) for part in rest if part is not None]
    if days is None and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, mins, seconds = (*numbers, 0, 0)[:3]
    total = (int(days or 0) * 24 + hours) * 60 + mins + (seconds + 59) // 60
    return max(1, total)


def _groups(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """The runs of each job array, after the groups of the runs that they need."""
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.system.name, run.trial is None, run.needed), []).append(run)
    waiting = {run.name for run in runs}
    while waiting:
        for group in groups.values():
            if group[0].name in waiting and not waiting.intersection(group[0].needed):
                yield group
                waiting.difference_update(run.name for run in group)


def _parameters(
    run: Run, jobs: Mapping[str, str], finished: Collection[str], options: Mapping[str, str]
) -> dict[str, Any]:
    """The options with which the jobs of a run, and of those like it, are submitted."""
    system = run.system
    more = {name: value for name, value in options.items() if name != "time"}
    gpus = more.pop("gpus-per-node", None) is None and "gres" not in more
    arguments = []
    if "cpus-per-task" in more:
        # srun does not inherit it from sbatch.
        arguments.append(f"--cpus-per-task={more['cpus-per-task']}")
    if system.nodes > 1:
        # The run starts the workers of all machines itself.
        arguments += ["--nodes=1", "--ntasks=1", "--overlap"]
    limit = minutes(options.get("time", TIME))
    needed = [jobs[name] for name in run.needed if name not in finished]
    if needed:
        more["kill-on-invalid-dep"] = "yes"
    return {
        "job_name": system.folder_name,
        "time": limit,
        "nodes": system.nodes,
        "ntasks_per_node": 1,
        "gpus_per_node": system.gpus if gpus else None,
        "dependency": f"afterok:{':'.join(needed)}" if needed else None,
        "signal_delay_s": min(NOTICE, 30 * limit),
        "stderr_to_stdout": True,
        "srun_args": arguments,
        "additional_parameters": {**more, "requeue": True},
    }


def _queued() -> set[str]:
    """The numbers of this user's waiting and running jobs."""
    done = subprocess.run(
        ["squeue", "--me", "--noheader", "--array", "--format=%i"], capture_output=True, text=True
    )
    if done.returncode:
        raise UserError(f"squeue fails: {_reason(done.stderr) or f'exit code {done.returncode}'}.")
    return set(done.stdout.split())


def _reason(text: str) -> str:
    """The errors in what a program of Slurm printed; empty if it printed nothing."""
    found = re.findall(r"^\w+: error: (.*)$", text, re.MULTILINE)
    return "; ".join(each.rstrip(".") for each in found) or text.strip().rpartition("\n")[2]
