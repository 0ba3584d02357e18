"""``table``: many comparisons, each written down as soon as it is there."""

import argparse
import fnmatch
import json
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from convs2s_plugin.errors import UserError
from convs2s_plugin.text_files import write_whole

from . import readme
from .compare import compare
from .rows import ROWS, Row
from .setting import DEVICES, use_device

# After so many seconds a row has rounds enough.
SECONDS = {"cpu": 20.0, "cuda": 3.0}
ROUNDS = {"cpu": 11, "cuda": 30}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``table``."""
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    parser.add_argument(
        "--rows",
        default="*",
        metavar="PATTERN",
        help="e.g. 'train *' or '*bf16*'; what is known of other rows stays (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=readme.RESULTS,
        metavar="FOLDER",
        help="gets DEVICE.json; README.md has the table of %(default)s (the default)",
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after so many, no other row begins"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure the rows; 1 where one failed or is slower than wanted.

    Raises:
        UserError: where there is no such row or device.
    """
    use_device(args.device)
    every = ROWS[args.device]()
    rows = [row for row in every if fnmatch.fnmatchcase(row.name, args.rows)]
    if not rows:
        names = ", ".join(f"'{row.name}'" for row in every)
        raise UserError(f"No row is called {args.rows}; there are {names}.")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.device}.json"
    results = measure(rows, every, path, args.minutes)
    print(f"\n{readme.table(results)}", flush=True)
    if args.out.resolve() == readme.RESULTS:
        readme.write()
    bad = [row.name for row in rows if not good(results.get(row.name, {}))]
    if bad:
        print(f"Left out, failed or slower than wanted: {', '.join(bad)}.", file=sys.stderr)
    return 1 if bad else 0


def measure(
    rows: list[Row], every: list[Row], path: Path, minutes: float = math.inf
) -> dict[str, dict]:
    """Results by name, in the order of the table, written after each row.

    Args:
        rows: those that are measured.
        every: all rows of the table; what a file has of others is dropped.
        path: the file, which may have results already.
        minutes: after which no other row begins (no limit).
    """
    results = read(path)
    end = time.perf_counter() + 60 * minutes
    for number, row in enumerate(rows, 1):
        print(f"[{number}/{len(rows)}] {row.name} ... ", end="", flush=True)
        start = time.perf_counter()
        if start > end:
            print("left out, the time is up", flush=True)
            continue
        results[row.name] = result = measure_row(row)
        print(f"{outcome(result)} ({time.perf_counter() - start:.0f} s)", flush=True)
        results = {other.name: results[other.name] for other in every if other.name in results}
        with write_whole(str(path)) as file:
            file.write(json.dumps(results, indent=1) + "\n")
    return results


def measure_row(row: Row) -> dict:
    """The comparison of a row, or why there is none."""
    # In a process of its own, because what rows before it left of memory changes the times.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context) as process:
            result = process.submit(_compare, row, torch.get_num_threads()).result()
    # Whatever it is, the other rows can still be measured.
    except Exception as error:
        message = str(error).strip() or "no message"
        result = {"error": f"{type(error).__name__}: {message.splitlines()[0]}"}
    return {**result, "wanted": row.wanted}


def _compare(row: Row, threads: int) -> dict:
    torch.set_num_threads(threads)
    device = row.ours.device
    use_device(device)
    return compare(row.what, row.ours, row.peer, ROUNDS[device], SECONDS[device])


def outcome(result: dict) -> str:
    """A result in a few words."""
    if "error" in result:
        return f"failed: {result['error']}"
    ratio = result["seconds"]["ratio"]
    return f"{ratio['median']:.2f} ({ratio['minimum']:.2f} to {ratio['maximum']:.2f})"


def good(result: dict) -> bool:
    """Whether there is a result, and as much as is wanted."""
    if "seconds" not in result:
        return False
    return result["wanted"] is None or result["seconds"]["ratio"]["median"] >= result["wanted"]


def read(path: Path) -> dict[str, dict]:
    """The results that a file has, or none where there is no file.

    Raises:
        UserError: where it is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError(f"{path} is not what an earlier run wrote ({error}): remove it.") from error
