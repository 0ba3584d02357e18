"""``prepare``: time and peak memory of ``convs2s prepare`` on generated text.

The words follow Zipf's law, so that the number of different words grows with the text as in a
language. The memory is the sum over ``convs2s prepare`` and the programs that it starts.
"""

import argparse
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from convs2s.common.errors import UserError
from convs2s.common.programs import find_program

from .machine import machine
from .options import int_at_least

LANGUAGES = "de", "en"
# Words on one side of a pair.
SHORTEST, LONGEST = 5, 33
# A million pairs of 19 words have about 540,000 different words on each side.
ZIPF_EXPONENT = 1.3
MOST_WORDS = 10_000_000
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprst" for vowel in "aeiou"]
# Pairs that are generated at once.
CHUNK = 10_000
# Seconds between two readings of the memory.
INTERVAL = 0.2


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


def run(args: argparse.Namespace) -> dict:
    """Generate text and prepare it.

    Raises:
        UserError: if the system has no /proc, or ``convs2s prepare`` fails.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        raise UserError("The memory of processes is read from /proc, which this system lacks.")
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder, f"corpus.{language}") for language in LANGUAGES]
        words = [write_text(path, args.pairs, seed) for seed, path in enumerate(sides, start=1)]
        size = sum(path.stat().st_size for path in sides)
        command = [*find_program("convs2s"), "prepare", "--train", *map(str, sides)]
        command += ["--tokenizer", args.tokenizer, "--out", str(Path(folder, "prepared"))]
        minutes, peak = measure(command)
    return {
        "pairs": args.pairs,
        "bytes_of_text": size,
        "different_words": dict(zip(LANGUAGES, words, strict=True)),
        "tokenizer": args.tokenizer,
        "machine": machine("cpu"),
        "minutes": minutes,
        "peak_bytes": peak,
    }


def write_text(path: Path, number: int, seed: int) -> int:
    """Write generated sentences to a file, one a line.

    Args:
        path: the file.
        number: the number of sentences.
        seed: seed of the generator.
    Returns:
        the number of different words.
    """
    generator = np.random.default_rng(seed)
    seen = np.zeros(MOST_WORDS, dtype=bool)
    with path.open("w", encoding="ascii") as file:
        for start in range(0, number, CHUNK):
            lengths = generator.integers(
                SHORTEST, LONGEST, min(CHUNK, number - start), endpoint=True
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


def measure(command: list[str]) -> tuple[float, int]:
    """Run a command, and return its minutes and the peak memory of its processes in bytes.

    Raises:
        UserError: if it fails.
    """
    start = time.perf_counter()
    peak = 0
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            peak = max(peak, memory(process.pid))
            time.sleep(INTERVAL)
        minutes = (time.perf_counter() - start) / 60
        if process.returncode != 0:
            log.seek(0)
            lines = log.read().decode("utf-8", "replace").strip().splitlines() or ["no message"]
            raise UserError(f"{command[0]} failed: {lines[-1]}")
    return minutes, peak


def memory(process: int) -> int:
    """The memory of a process and of all that it started, in bytes.

    Pages that processes share are divided among them.
    """
    try:
        parent = psutil.Process(process)
        processes = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for one in processes:
        with suppress(psutil.Error):
            total += one.memory_full_info().pss
    return total
