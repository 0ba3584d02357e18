"""``prepare``: time, memory and disk of each stage of ``convs2s prepare`` on generated text.

The words follow Zipf's law, so that the number of different words grows with the text as in a
language. All numbers are sums over ``convs2s prepare`` and the processes that it starts.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from convs2s.common.errors import UserError
from convs2s.common.programs import find_program, usage_at_end
from convs2s.text.stages import FILE
from convs2s.text.workflow import WORK

from .machine import machine
from .options import int_at_least

LANGUAGES = "de", "en"
# Words on one side of a pair, if no others are given.
WORDS = (5, 33)
# A million pairs of 19 words have about 540,000 different words on each side.
ZIPF_EXPONENT = 1.3
MOST_WORDS = 10_000_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
# Pairs that are generated at once.
CHUNK = 10_000
# Seconds between two readings of the memory, and of the disk.
INTERVAL, DISK_INTERVAL = 0.2, 1.0
# The last stage, which removes the record of all.
LAST = "binarize"
# The strength of sampled sub-words.
DROPOUT = 0.1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``prepare``."""
    add = parser.add_argument
    add(
        "--pairs",
        type=int_at_least(1),
        default=1_000_000,
        help="sentence pairs (default: %(default)s)",
    )
    add(
        "--tokenizer",
        default="none",
        help="tokenizer of convs2s prepare (default: %(default)s)",
    )
    add(
        "--words",
        type=int_at_least(1),
        nargs=2,
        default=WORDS,
        metavar=("SHORTEST", "LONGEST"),
        help=f"words on one side of a pair (default: {WORDS[0]} to {WORDS[1]})",
    )
    add(
        "--segmentations",
        type=int_at_least(2),
        help=f"segmentations of the training text, with --bpe-dropout {DROPOUT} (default: one)",
    )
    add(
        "--workers",
        type=int_at_least(1),
        default=1,
        help="processes of convs2s prepare (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> dict:
    """Generate text and prepare it.

    Raises:
        UserError: if the system has no /proc, the shortest pair is longer than the longest, or
            ``convs2s prepare`` fails.
    """
    shortest, longest = args.words
    if shortest > longest:
        raise UserError(f"--words is {shortest} {longest}: give the smaller number first.")
    if not Path("/proc/self/smaps_rollup").exists():
        raise UserError("The memory of processes is read from /proc, which this system lacks.")
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder, f"corpus.{language}") for language in LANGUAGES]
        words = [
            write_text(path, args.pairs, seed, *args.words)
            for seed, path in enumerate(sides, start=1)
        ]
        size = sum(path.stat().st_size for path in sides)
        out = Path(folder, "prepared")
        command = [*find_program("convs2s"), "prepare", "--train", *map(str, sides)]
        command += ["--tokenizer", args.tokenizer, "--out", str(out)]
        command += ["--workers", str(args.workers)]
        if args.segmentations:
            command += ["--bpe-dropout", str(DROPOUT)]
            command += ["--segmentations", str(args.segmentations)]
        minutes, stages = measure(command, out)
    return {
        "pairs": args.pairs,
        "bytes_of_text": size,
        "words": [*args.words],
        "different_words": dict(zip(LANGUAGES, words, strict=True)),
        "tokenizer": args.tokenizer,
        "segmentations": args.segmentations or 1,
        "workers": args.workers,
        "machine": machine("cpu"),
        "minutes": minutes,
        "peak_bytes": max(stage["peak_bytes"] for stage in stages.values()),
        "stages": stages,
    }


def write_text(
    path: Path, number: int, seed: int, shortest: int = WORDS[0], longest: int = WORDS[1]
) -> int:
    """Write generated sentences to a file, one per line.

    Args:
        path: the file.
        number: the number of sentences.
        seed: seed of the generator.
        shortest, longest: words in a sentence.
    Returns:
        the number of different words.
    """
    generator = np.random.default_rng(seed)
    seen = np.zeros(MOST_WORDS, dtype=bool)
    with path.open("w", encoding="ascii") as file:
        for start in range(0, number, CHUNK):
            lengths = generator.integers(
                shortest, longest, min(CHUNK, number - start), endpoint=True
            )
            ranks = generator.zipf(ZIPF_EXPONENT, lengths.sum()) % MOST_WORDS
            seen[ranks] = True
            words = iter(map(word, ranks.tolist()))
            file.writelines(
                " ".join(next(words) for _ in range(length)) + "\n" for length in lengths
            )
    return int(seen.sum())


def word(rank: int) -> str:
    """The word of a rank: frequent words are short."""
    syllables = []
    while rank or not syllables:
        rank, place = divmod(rank, len(SYLLABLES))
        syllables.append(SYLLABLES[place])
    return "".join(syllables)


@dataclass
class Use:
    """What the processes have used since the last stage ended.

    Attributes:
        seconds: processor time.
        memory: the most bytes of memory.
        disk: the most bytes in the output folder.
    """

    seconds: float = 0.0
    memory: int = 0
    disk: int = 0

    def numbers(self) -> dict:
        return {"seconds": self.seconds, "peak_bytes": self.memory, "disk_bytes": self.disk}


def measure(command: list[str], out: Path) -> tuple[float, dict[str, dict]]:
    """Run ``convs2s prepare``.

    Returns:
        its minutes, and stage -> "seconds" of processor time, and the most bytes of memory and on
        disk. What follows the last stage counts toward it.
    Raises:
        UserError: if it fails.
    """
    start = time.perf_counter()
    stages: dict[str, Use] = {}
    use, before, next_disk = Use(), 0.0, 0.0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while (total := usage_at_end(process)) is None:
            memory, seconds = resources(process.pid)
            use.memory = max(use.memory, memory)
            use.seconds = max(use.seconds, seconds - before)
            if time.perf_counter() >= next_disk:
                use.disk = max(use.disk, bytes_in(out))
                next_disk = time.perf_counter() + DISK_INTERVAL
            new = [name for name in complete(out) if name not in stages]
            if new:
                use.disk = max(use.disk, bytes_in(out))
                # The others have started since the last reading.
                stages |= {new[0]: use, **{name: Use() for name in new[1:]}}
                use, before = Use(), seconds
            time.sleep(INTERVAL)
        minutes = (time.perf_counter() - start) / 60
        if process.returncode != 0:
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UserError(f"{command[0]} failed: {lines[-1]}")
    last = stages.setdefault(LAST, Use())
    # A process that ends between two readings has used more than the last one says.
    last.seconds += max(use.seconds, total.ru_utime + total.ru_stime - before)
    last.memory, last.disk = max(last.memory, use.memory), max(last.disk, use.disk, bytes_in(out))
    return minutes, {name: each.numbers() for name, each in stages.items()}


def complete(out: Path) -> list[str]:
    """The stages that are complete, in their order."""
    try:
        return [*json.loads((out / WORK / FILE).read_text(encoding="utf-8"))["stages"]]
    except FileNotFoundError:
        return []


def bytes_in(folder: Path) -> int:
    """The bytes of all files in a folder."""
    total = 0
    # It passes over folders that have been renamed or removed by now.
    for parent, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):
                total += Path(parent, file).stat().st_size
    return total


def resources(process: int) -> tuple[int, float]:
    """The memory of a process and of all that it started, in bytes, and their processor seconds.

    Pages that processes share are divided among them.
    """
    try:
        parent = psutil.Process(process)
        processes = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return 0, 0.0
    memory, seconds = 0, 0.0
    for one in processes:
        with suppress(psutil.Error):
            memory += one.memory_full_info().pss
            times = one.cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return memory, seconds
