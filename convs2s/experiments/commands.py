"""The commands that train and translate, and the data and devices that they use."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import UserError
from ..common.installation import available_cores, count_gpus
from ..common.programs import find_program
from ..text.binarize import training_data
from .options import OF_TRANSLATE, Options, arguments

if TYPE_CHECKING:
    from .runs import Run

USER_DIR = Path(__file__).resolve().parents[2] / "convs2s_plugin"
# Models of fairseq's own get the fixes that the plugin makes for its models.
FIXES = {"CONVS2S_COMPAT": "all"}
# The number of cores that a process computes with.
THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True)
class Data:
    """Binarized data.

    Attributes:
        bin: its folder.
        source, target: languages.
        tests: names of the test sets -> fairseq's names; the first one is the most important.
        prepared: the folder that ``convs2s prepare`` wrote; None for other data.
        marks_spaces: whether sub-words, or characters, mark spaces as sentencepiece does.
        monolingual: file with tokens of text of the target language; None if there is none.
    """

    bin: Path
    source: str
    target: str
    tests: dict[str, str]
    prepared: Path | None = None
    marks_spaces: bool = False
    monolingual: Path | None = None

    @property
    def pair(self) -> str:
        """The languages, as in the names of binarized data."""
        return f"{self.source}-{self.target}"

    def languages(self, reverse: bool) -> tuple[str, str]:
        """The languages that a system translates from and to."""
        return (self.target, self.source) if reverse else (self.source, self.target)

    @property
    def subsets(self) -> dict[str, str]:
        """Names of all splits to translate -> fairseq's names."""
        return {"valid": "valid", **self.tests}

    @property
    def first_test(self) -> str:
        """The name of the test set that decides."""
        return next(iter(self.tests))


@dataclass(frozen=True)
class Machine:
    """The devices of this machine.

    Attributes:
        device: their name, for the results.
        options: fairseq's options for one GPU or for the CPU.
        environments: variables for the programs of each slot.
    """

    device: str
    options: tuple[str, ...]
    environments: tuple[dict[str, str], ...]

    def environment(self, slot: int, workers: int = 1) -> dict[str, str]:
        """The variables for a program of a slot, whose workers share its cores."""
        variables = self.environments[slot]
        threads = variables.get(THREADS)
        if threads is None:
            return variables
        return variables | {THREADS: str(max(1, int(threads) // workers))}


def find_machine(jobs: int, dry: bool = False, each: int = 1) -> Machine:
    """Share the GPUs, or the cores if torch finds no GPU, among parallel runs.

    Args:
        jobs: number of runs at a time.
        each: number of GPUs of a run.
        dry: whether to skip waiting for torch: NVIDIA's driver then gives the GPUs, without names.
    """
    if dry:
        count, name = count_gpus(), ""
    else:
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        # Half precision and times on a CPU depend on the instructions.
        name = torch.cuda.get_device_name() if count else torch.backends.cpu.get_cpu_capability()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))
    gpus = [gpu for gpu in visible.split(",")[:count] if gpu]
    fixes = unless_set(FIXES)
    if gpus and len(gpus) < each and not dry:
        raise UserError(
            f"A system has {each} gpus, but this machine has {len(gpus)}: start it on another one, "
            "or choose systems with --systems."
        )
    if gpus:
        chosen = (
            [gpus[(slot * each + gpu) % len(gpus)] for gpu in range(each)] for slot in range(jobs)
        )
        slots = ({"CUDA_VISIBLE_DEVICES": ",".join(those)} for those in chosen)
        options = ("--distributed-world-size", "1")
        return Machine(name, options, tuple(fixes | slot for slot in slots))
    cores = available_cores()
    threads = unless_set({THREADS: str(max(1, cores // jobs))})
    device = f"CPU, {cores} core{'s' if cores > 1 else ''}, {name}"
    return Machine(device, ("--cpu",), (fixes | threads,) * jobs)


def unless_set(variables: dict[str, str]) -> dict[str, str]:
    """The variables that the user has not set."""
    return {name: value for name, value in variables.items() if name not in os.environ}


def basic_training_command(
    data: Data, machine: Machine, run: "Run", runs: Path, log_interval: int
) -> list[object]:
    """The command of a training run, without what it saves and when it ends.

    Args:
        data: the binarized data.
        machine: the devices.
        run: the run.
        runs: folder of all runs.
        log_interval: updates between two lines of the log.
    """
    command = _command("fairseq-train", data, machine, run) + arguments(run.train)
    if run.start is not None:
        command += ["--finetune-from-model", runs / run.start / "average.pt"]
    return command + ["--seed", run.seed, "--log-format", "json", "--log-interval", log_interval]


def training_command(data: Data, machine: Machine, run: "Run", checkpoints: Path) -> list[object]:
    """The command of a training run.

    Args:
        data, machine, run: as in ``basic_training_command``.
        checkpoints: folder of the checkpoints, inside that of the run.
    """
    updates, average = run.updates, run.system.average
    interval = average.interval(updates)
    if interval is not None:
        # The plugin saves those that end with an epoch, too.
        kept = ["--save-interval-updates", interval]
        kept += ["--keep-interval-updates", average.checkpoints, "--no-epoch-checkpoints"]
    elif average.checkpoints > 1:
        kept = ["--keep-last-epochs", average.checkpoints]
    else:
        kept = ["--no-epoch-checkpoints"]
    if interval is None and run.train.get("save-interval-updates"):
        # The newest one is enough to resume.
        kept += ["--keep-interval-updates", 1]
    log_interval = 20 if updates is None else max(1, min(20, updates // 10))
    command = basic_training_command(data, machine, run, checkpoints.parent.parent, log_interval)
    command += ["--max-update", updates] if updates else []
    return command + ["--save-dir", checkpoints, *kept]


def launched(command: list[object], run: "Run", dry: bool) -> list[object]:
    """The command that starts a training run with all of its workers.

    Args:
        command: the training run.
        run: the run.
        dry: whether the command is only printed.
    Raises:
        UserError: if this process is not in a job of Slurm with as many machines.
    """
    gpus, nodes = run.system.gpus, run.system.nodes
    if run.workers == 1:
        return command

    def found(program: object) -> list[str]:
        """A program that another one starts, which may not find it."""
        return [str(program)] if dry else find_program(str(program))

    start: list[object] = ["torchrun", "--standalone", "--nproc-per-node", gpus]
    if nodes > 1:
        if not dry and int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) < nodes:
            raise UserError(
                f"{run.system.place}.nodes is {nodes}: the training run must be started in a job "
                "of Slurm with as many machines, as with --launcher slurm."
            )
        start = ["srun", "--overlap", "--kill-on-bad-exit=1", "--nodes", nodes, "--ntasks", nodes]
        start += ["--ntasks-per-node", 1, *found("torchrun"), "--nnodes", nodes]
        start += ["--nproc-per-node", gpus]
        meeting = "HOST:PORT" if dry else f"{socket.gethostname()}:{_free_port()}"
        start += ["--rdzv-backend", "c10d", "--rdzv-endpoint", meeting]
    program, *arguments = command
    return [*start, "--no-python", *found(program), *arguments]


def _free_port() -> int:
    """The number of an unused port of this machine."""
    with socket.socket() as server:
        server.bind(("", 0))
        port: int = server.getsockname()[1]
        return port


def translation_command(
    data: Data, machine: Machine, run: "Run", checkpoints: Sequence[Path], subset: str
) -> list[object]:
    """The command that translates a split, given by fairseq's name for it."""
    command = _search_command(data, machine, run, checkpoints, subset, run.generate)
    return command + ["--remove-bpe", "sentencepiece"] * data.marks_spaces


def training_text_command(
    data: Data, machine: Machine, run: "Run", checkpoints: Sequence[Path]
) -> list[object]:
    """The command that translates the training text to tokens, for others to train on."""
    removals = ("remove-bpe", "post-process")
    options = {name: value for name, value in run.generate.items() if name not in removals}
    # A training run omits what is too long for its model.
    options["skip-invalid-size-inputs-valid-test"] = True
    return _search_command(data, machine, run, checkpoints, "train", options)


def monolingual_command(
    data: Data, machine: Machine, run: "Run", checkpoints: Sequence[Path], output: Path
) -> list[object]:
    """The command that translates the monolingual text to tokens, and can be resumed."""
    options = {name: run.system.generate.get(name) for name in OF_TRANSLATE}
    source, target = data.languages(reverse=True)
    command = ["convs2s", "translate", "--path", *checkpoints, "--data", data.bin, "--raw"]
    command += ["--source-lang", source, "--target-lang", target]
    command += ["--device", "cpu"] * ("--cpu" in machine.options)
    command += ["--input", data.monolingual, "--output", output, "--resume", "--quiet"]
    return command + arguments(options)


def _search_command(
    data: Data,
    machine: Machine,
    run: "Run",
    checkpoints: Sequence[Path],
    subset: str,
    options: Options,
) -> list[object]:
    command = _command("fairseq-generate", data, machine, run)
    command += ["--path", os.pathsep.join(map(str, checkpoints)), "--gen-subset", subset]
    return command + arguments(options)


def _command(program: str, data: Data, machine: Machine, run: "Run") -> list[object]:
    source, target = data.languages(run.system.reverse)
    languages = ["--source-lang", source, "--target-lang", target]
    folder = training_data(data.bin) if program == "fairseq-train" else data.bin
    return [program, folder, "--user-dir", USER_DIR, *languages, *machine.options]
