"""``translate``: the time of ``convs2s translate`` and of ``fairseq-interactive``.

Both commands translate the same lines with the same checkpoint on a CPU. The time is that of the
whole command, from its start to its end.
"""

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from convs2s.common.errors import UserError
from convs2s.common.programs import find_program
from convs2s.evaluation.nbest import first_texts
from convs2s.translation.options import MAX_TOKENS

from .machine import machine
from .measure import alternate, ratios, summary
from .options import add_numbers, int_at_least

USER_DIR = Path(__file__).resolve().parent.parent / "convs2s_plugin"
# Buffers of fairseq-interactive, of which the fastest is compared.
BUFFERS = 100, 1_000, 10_000
# Commands -> their environment variables.
OURS = {
    "convs2s translate": {},
    "OMP_NUM_THREADS=1 convs2s translate": {"OMP_NUM_THREADS": "1"},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``translate``."""
    add = parser.add_argument
    add("data", metavar="DATA_BIN", help="a folder written by fairseq-preprocess")
    add("checkpoint", metavar="CHECKPOINT", help="a checkpoint of any translation model")
    add("input", metavar="FILE", nargs="+", help="lines of tokens, sub-words included")
    add_numbers(parser, beam=5, rounds=5)
    add(
        "--buffers",
        type=int_at_least(1),
        nargs="+",
        default=BUFFERS,
        metavar="N",
        help="buffer sizes of fairseq-interactive; each is tried once, and the fastest one is "
        "compared (default: 100 1000 10000)",
    )


def run(args: argparse.Namespace) -> dict:
    """Run the commands on each file in turn.

    Raises:
        UserError: if a file is missing or a command fails.
    """
    for path in (args.data, args.checkpoint, *args.input):
        if not Path(path).exists():
            raise UserError(f"There is no file or folder {path}.")
    return {
        "data": args.data,
        "checkpoint": args.checkpoint,
        "beam": args.beam,
        "machine": machine("cpu"),
        "rounds": args.rounds,
        "commands": [measure(args, path) for path in args.input],
    }


def measure(args: argparse.Namespace, path: str) -> dict:
    """Run the commands on a file in turn.

    Raises:
        UserError: if the file is empty or a command fails.
    """
    with open(path, "rb") as file:
        lines = sum(1 for _ in file)
    if not lines:
        raise UserError(f"{path} has no lines.")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder, f"{number}.txt") for number, name in enumerate(OURS)}
        printed = Path(folder, "interactive.txt")
        peers = {size: _interactive(args, path, size, printed) for size in args.buffers}
        seconds = {size: _seconds(peer) for size, peer in peers.items()}
        best = min(seconds, key=seconds.__getitem__)
        peer = f"fairseq-interactive --buffer-size {best}"
        ours = {name: _translate(args, path, OURS[name], file) for name, file in files.items()}
        times = alternate({peer: peers[best], **ours}, args.rounds, 1)
        expected = first_texts(printed.read_text(encoding="utf-8"), "H", lines)
        different = max(_count_different(file, expected) for file in files.values())
    return {
        "input": path,
        "lines": lines,
        "buffers": {str(size): taken for size, taken in seconds.items()},
        "different": different,
        "seconds": {name: summary(values) for name, values in times.items()},
        "times_as_fast": {name: summary(ratios(times[peer], times[name])) for name in ours},
    }


def _interactive(
    args: argparse.Namespace, path: str, buffer_size: int, output: Path
) -> Callable[[], None]:
    """A function that runs fairseq-interactive."""
    return _runner(
        "fairseq-interactive",
        [args.data, "--user-dir", USER_DIR, "--task", "convs2s_translation", "--cpu"]
        + ["--path", args.checkpoint, "--input", path, "--beam", args.beam]
        + ["--buffer-size", buffer_size, "--max-tokens", MAX_TOKENS],
        {},
        output,
    )


def _translate(
    args: argparse.Namespace, path: str, environment: dict[str, str], output: Path
) -> Callable[[], None]:
    """A function that runs ``convs2s translate``."""
    return _runner(
        "convs2s",
        ["translate", "--path", args.checkpoint, "--data", args.data, "--raw", "--device", "cpu"]
        + ["--input", path, "--beam", args.beam, "--max-tokens", MAX_TOKENS],
        environment,
        output,
    )


def _runner(
    program: str, arguments: list[object], environment: dict[str, str], output: Path
) -> Callable[[], None]:
    """A function that runs a program, and writes its standard output to a file."""
    command = [*find_program(program), *map(str, arguments)]

    def run_command() -> None:
        with output.open("wb") as file:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
            )
        if done.returncode != 0:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UserError(f"{program} failed with exit code {done.returncode}: {lines[-1]}")

    return run_command


def _seconds(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _count_different(path: Path, expected: list[str]) -> int:
    """The number of lines that differ from the expected ones."""
    found = path.read_text(encoding="utf-8").split("\n")[:-1]
    return sum(one != other for one, other in zip(found, expected, strict=True))
