"""Workers that torchrun starts on CPUs, on one machine and on two, equal one worker."""

import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.commands import (
    CRITERION,
    TINY,
    assert_same_weights,
    call_at_once,
    command,
    quick_command,
    server,
    train,
    train_arguments,
)

OPTIONS = TINY[:-2] + ("--batch-size", "120", "--optimizer", "sgd", "--dropout", "0.0")
COMMON = ("--max-update", "2", "--no-epoch-checkpoints")


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


def launch(*arguments, module="torch.distributed.run"):
    """Run torchrun, or another launcher of torch, to its end."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def one_worker(corpus, tmp_path_factory):
    """The checkpoint of one worker with the batches of two."""
    folder = tmp_path_factory.mktemp("one")
    train(corpus, folder, *COMMON, "--update-freq", "2", options=OPTIONS)
    return folder / "checkpoint_last.pt"


def test_torchrun_on_one_machine(corpus, tmp_path, one_worker):
    """As a user starts it, and with a validation by both workers."""
    program = tmp_path / "fairseq-train"
    program.write_text(command("train")[2], encoding="utf-8")
    log = launch(
        "--nproc-per-node",
        "2",
        "--master-port",
        free_port(),
        program,
        *train_arguments(corpus, tmp_path, *COMMON, options=OPTIONS),
    )
    assert "training on 2 devices" in log and "valid on 'valid' subset" in log
    assert_same_weights(one_worker, tmp_path / "checkpoint_last.pt", atol=1e-6, rtol=1e-5)


def test_a_worker_with_fewer_batches_in_the_last_update(corpus, tmp_path):
    """Three batches are one update: two of the first worker, and one of the second."""
    given = ("--batch-size", "80", "--max-epoch", "2", "--no-epoch-checkpoints")
    logs = {"one": train(corpus, tmp_path / "one", *given, "--update-freq", "4", options=OPTIONS)}
    program, *_ = quick_command("train")
    arguments = (*given, "--update-freq", "2")
    logs["two"] = launch(
        *("--nproc-per-node", "2", "--master-port", free_port(), "--no-python", program),
        *train_arguments(corpus, tmp_path / "two", *arguments, options=OPTIONS),
    )
    one, two = (tmp_path / name / "checkpoint_last.pt" for name in logs)
    assert_same_weights(one, two, atol=1e-6, rtol=1e-5)
    # The numbers in the log are those of all batches, too.
    first, second = (
        re.findall(r"\| train \| epoch.*? loss ([\d.]+) .*? wpb ([\d.]+)", log)
        for log in logs.values()
    )
    assert len(first) == 2 and first == second


def worker(rank, port, record, arguments):
    """A worker that writes down its learning rates; the clock of the second one is wrong."""
    from fairseq.trainer import Trainer
    from fairseq_cli.train import cli_main

    from convs2s_plugin.schedulers import Budgeted

    make, step = Trainer.__init__, Budgeted.step_update

    def make_with_its_clock(self, *args, **options):
        make(self, *args, **options)
        self._start_time -= 7200 * rank

    def noted_step(self, num_updates):
        rate = step(self, num_updates)
        with open(f"{record}{rank}", "a", encoding="utf-8") as file:
            file.write(f"{num_updates} {rate!r}\n")
        return rate

    Trainer.__init__, Budgeted.step_update = make_with_its_clock, noted_step
    sys.argv = ["fairseq-train", *arguments, "--distributed-rank", str(rank)]
    sys.argv += ["--distributed-init-method", f"tcp://127.0.0.1:{port}"]
    cli_main()


def test_workers_have_the_same_learning_rate_at_equal_time(corpus, tmp_path):
    budget = ("--lr-scheduler", "budgeted", "--stop-time-hours", "2", "--max-update", "3")
    two = ("--distributed-world-size", "2", "--distributed-no-spawn")
    gloo = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp")
    more = ("--no-epoch-checkpoints", "--disable-validation")
    given = (*budget, *two, *gloo, *more)
    arguments = train_arguments(corpus, tmp_path, *given, options=OPTIONS)
    port, record = free_port(), str(tmp_path / "rates")
    calls = [(rank, port, record, list(map(str, arguments))) for rank in range(2)]
    assert call_at_once(worker, calls) == [0, 0]
    rates = [
        {line.split()[0]: float(line.split()[1]) for line in (tmp_path / f"rates{rank}").open()}
        for rank in range(2)
    ]
    assert rates[0] == rates[1] and len(rates[0]) == 4
    # The mean of both clocks, half of the time, counts from the first update on.
    assert rates[0]["1"] == pytest.approx(rates[0]["0"] / 2, rel=0.02)


def test_a_worker_that_dies_ends_the_others_with_its_reason(corpus, tmp_path):
    code = (
        "import os\n"
        "from convs2s_plugin.criterions import ConvS2SCrossEntropy\n"
        "def fail(*arguments, **options):\n"
        "    raise OSError('this worker has lost its disk')\n"
        "if os.environ['RANK'] == '1':\n"
        "    ConvS2SCrossEntropy.forward = fail\n"
        "from fairseq_cli.train import cli_main; cli_main()"
    )
    program = server().programs / "python"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--master-port",
            free_port(),
            "--no-python",
            program,
            "-c",
            code,
            *map(str, train_arguments(corpus, tmp_path, *CRITERION, options=OPTIONS)),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "this worker has lost its disk" in done.stderr
    assert "rank      : 1" in done.stderr


def test_torchrun_on_two_machines_with_two_passes(corpus, tmp_path):
    """Both are this machine; each has a launcher and one worker.

    All tokens are cut in the second pass: which ones are would depend on the worker.
    """
    more = (*COMMON, *CRITERION, "--simcut-weight", "3", "--simcut-p", "0.999999999")
    train(corpus, tmp_path / "one", *more, "--update-freq", "2", options=OPTIONS)
    port = free_port()
    program, *_ = quick_command("train")

    def machine(number):
        return launch(
            "--nnodes",
            "2",
            "--node-rank",
            number,
            "--nproc-per-node",
            "1",
            "--master-addr",
            "127.0.0.1",
            "--master-port",
            port,
            "--no-python",
            program,
            *train_arguments(corpus, tmp_path / "two", *more, options=OPTIONS),
        )

    with ThreadPoolExecutor(2) as pool:
        first, _ = pool.map(machine, range(2))
    assert "training on 2 devices" in first
    one, two = (tmp_path / name / "checkpoint_last.pt" for name in ("one", "two"))
    assert_same_weights(one, two, atol=1e-6, rtol=1e-5)
