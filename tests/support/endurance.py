"""Long use: training, then translating line by line.

``python -m tests.support.endurance --minutes 30`` does both.

Records the resident memory and the open files of each process over time in ``endurance.json``,
draws ``endurance.png``, and fails if the last third of the time needs more than the middle one.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convs2s.common.output_files import atomic_path, atomic_write
from convs2s.pictures.figures import color, label_axes
from tests import ROOT
from tests.conftest import WORDS, write_corpus
from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    command,
    fairseq,
    train,
    train_arguments,
)

# How much more memory the last third may need than the middle one.
GROWTH = 0.03
SAMPLES = 200
MIB = 2**20

# Seconds since the start, resident memory in MiB, open files.
Sample = tuple[float, float, int]


def sample(process: int, seconds: float) -> Sample:
    """The resident memory and the open files of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    files = len(os.listdir(f"/proc/{process}/fd"))
    return round(seconds, 1), round(pages * os.sysconf("SC_PAGE_SIZE") / MIB, 1), files


def watch(process: subprocess.Popen, minutes: float) -> list[Sample]:
    """Sample a process until it ends, or until the time is over and it is killed."""
    samples, start = [], time.monotonic()
    while process.poll() is None and time.monotonic() < start + 60 * minutes:
        try:
            samples.append(sample(process.pid, time.monotonic() - start))
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(60 * minutes / SAMPLES)
    return samples


def training(folder: Path, minutes: float) -> dict[str, Any]:
    """Train ConvS2S on a tiny corpus, with a validation and checkpoints in each epoch."""
    options = (*TINY, *TASK, *CRITERION, "--max-epoch", "1000000", "--keep-last-epochs", "2")
    arguments = train_arguments(folder, folder / "endurance", options=options)
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command("train", *arguments), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
        )
        try:
            samples = watch(process, minutes)
            assert process.poll() is None, (folder / "log").read_text("utf-8")[-3000:]
        finally:
            process.kill()
            process.wait()
    epochs = (folder / "log").read_text("utf-8").count("Saved checkpoint")
    return {"work": f"{epochs:,} epochs", "samples": samples}


def translation(folder: Path, minutes: float) -> dict[str, Any]:
    """Translate lines of 0 to 60 words with fairseq-interactive, one after the other."""
    train(folder, folder / "trained", "--max-epoch", "8")
    program = command(
        *("interactive", folder / "bin", "--user-dir", PLUGIN, "--cpu", *TASK),
        *("--path", folder / "trained" / "checkpoint_last.pt", "--beam", "5"),
        *("--source-lang", "de", "--target-lang", "en"),
    )
    with open(folder / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            # A translation that stays in the buffer of a pipe would never come.
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
        )
    found: list[Sample] = []
    sampler = threading.Thread(target=lambda: found.extend(watch(process, minutes)))
    sampler.start()
    lines = 0
    numbers = random.Random(1)
    assert process.stdin is not None and process.stdout is not None
    while sampler.is_alive():
        words = numbers.choices([*WORDS, "unbekannt"], k=numbers.randint(0, 60))
        process.stdin.write(" ".join(words) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            if line.startswith("P-"):
                break
        else:
            raise AssertionError((folder / "log").read_text("utf-8")[-3000:])
        assert line.startswith(f"P-{lines}\t"), f"{line} is not line {lines}"
        lines += 1
    process.kill()
    process.communicate()
    return {"work": f"{lines:,} lines", "samples": found}


PARTS: dict[str, Callable[[Path, float], dict[str, Any]]] = {
    "training": training,
    "translation": translation,
}


def growth(samples: list[Sample]) -> tuple[float, int]:
    """By how much the last third needs more than the middle one.

    Returns:
        The share of the resident memory, and the open files; both of the medians, since a
        checkpoint that is being written is a file more for a moment.
    """
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third : 3 * third]
    memory = [statistics.median(one[1] for one in part) for part in (middle, last)]
    files = [statistics.median(one[2] for one in part) for part in (middle, last)]
    return memory[1] / memory[0] - 1, round(files[1] - files[0])


def check(samples: list[Sample]) -> None:
    """Fail if memory or open files grow."""
    memory, files = growth(samples)
    assert memory < GROWTH, f"the resident memory grows by {memory:.1%}"
    assert files <= 0, f"{files} more files are open"


def plot(results: dict[str, dict[str, Any]], path: str) -> None:
    """Draw memory and open files against time."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(8.0, 3.0), layout="constrained")
    for column, (axis, name) in enumerate(zip(axes, ("resident memory (MiB)", "open files")), 1):
        for number, (part, result) in enumerate(results.items()):
            minutes = [one[0] / 60 for one in result["samples"]]
            values = [one[column] for one in result["samples"]]
            axis.plot(minutes, values, color=color(number), label=f"{part}, {result['work']}")
        axis.set_ylim(bottom=0)
        label_axes(axis, "minutes", name)
    axes[0].legend(frameon=False, loc="lower right")
    with atomic_path(path) as partial:
        figure.savefig(partial, format="png", dpi=100)
    pyplot.close(figure)


def main(arguments: list[str]) -> None:
    """Run the parts, write their samples and the picture, and check them."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of each part (60)")
    parser.add_argument("--output", type=Path, default=Path("docs"), help="folder (docs)")
    options = parser.parse_args(arguments)
    results = {}
    with tempfile.TemporaryDirectory(prefix="endurance") as name:
        folder = Path(name)
        write_corpus(folder)
        fairseq(
            "preprocess",
            "--source-lang",
            "de",
            "--target-lang",
            "en",
            "--destdir",
            folder / "bin",
            *(f"--{split}pref={folder / split}" for split in ("train", "valid", "test")),
        )
        for part, run in PARTS.items():
            results[part] = run(folder, options.minutes)
    with atomic_write(str(options.output / "endurance.json")) as file:
        json.dump({"minutes": options.minutes, **results}, file)
        file.write("\n")
    plot(results, str(options.output / "endurance.png"))
    for part, result in results.items():
        memory, files = growth(result["samples"])
        largest = max(one[1] for one in result["samples"])
        print(
            f"{part}: {result['work']}, at most {largest:.0f} MiB; the last third needs "
            f"{memory:+.1%} memory and {files:+d} files"
        )
        check(result["samples"])


if __name__ == "__main__":
    main(sys.argv[1:])
