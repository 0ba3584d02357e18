"""``table``: measure many comparisons, and write each result as soon as it is measured."""

import argparse
import fnmatch
import json
import math
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import torch

from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_write
from convs2s.common.signals import end_with_parent

from . import pages
from .compare import compare
from .options import add_device
from .rows import ROWS, Row
from .setting import CTRANSLATE2, ONNXRUNTIME, use_device

# Time limit and number of rounds for each row.
MAX_SECONDS = {"cpu": 20.0, "cuda": 3.0}
ROUNDS = {"cpu": 11, "cuda": 30}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``table``."""
    add_device(parser)
    parser.add_argument(
        "--rows",
        default="*",
        metavar="PATTERN",
        help="measure only the rows that match, e.g. 'train *' or '*bf16*', and keep the results "
        "of the others (default: all)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=pages.RESULTS,
        metavar="FOLDER",
        help="write DEVICE.json to this folder (default: %(default)s, from which the tables of the "
        "documentation are made)",
    )
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no row after this time (no limit)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure the rows and write the tables.

    Returns:
        The exit status: 1 if a row failed, is below its floor, or was skipped for lack of time.
    Raises:
        UserError: if no row matches, or torch has no such device.
    """
    use_device(args.device)
    all_rows = ROWS[args.device]()
    rows = [row for row in all_rows if fnmatch.fnmatchcase(row.name, args.rows)]
    if not rows:
        names = ", ".join(f"'{row.name}'" for row in all_rows)
        raise UserError(f"No row matches --rows {args.rows}; the rows are {names}.")
    rows = without_missing_engines(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{args.device}.json"
    results = measure(rows, all_rows, path, args.minutes)
    print(f"\n{pages.comparison_table(results)}", flush=True)
    if args.out.resolve() == pages.RESULTS:
        pages.write()
    bad = [row.name for row in rows if not reaches_floor(row, results.get(row.name, {}))]
    if bad:
        print(f"Skipped, failed or below the floor: {', '.join(bad)}.", file=sys.stderr)
    return 1 if bad else 0


def without_missing_engines(rows: list[Row]) -> list[Row]:
    """The rows whose engines are installed; a sentence names the others."""
    needed = {CTRANSLATE2: ["ctranslate2"], ONNXRUNTIME: ["onnx", "onnxscript", "onnxruntime"]}
    missing: list[Row] = []
    for engine, packages in needed.items():
        without = [row for row in rows if engine in (row.ours.engine, row.peer.engine)]
        absent = [package for package in packages if find_spec(package) is None]
        if without and absent:
            missing += without
            names = ", ".join(f"'{row.name}'" for row in without)
            advice = f"{' and '.join(absent)} (`pip install {' '.join(absent)}`)"
            print(f"Not measured without {advice}: {names}.", flush=True)
    return [row for row in rows if row not in missing]


def measure(
    rows: list[Row], all_rows: list[Row], path: Path, minutes: float = math.inf
) -> dict[str, dict]:
    """Measure rows, and write the file after each of them.

    Args:
        rows: the rows to measure.
        all_rows: all rows of the table in order. Results of other rows are dropped.
        path: a file, which may hold earlier results.
        minutes: no row begins after this time (no limit).
    Returns:
        Row name -> result, in the order of the table.
    """
    results = read(path)
    end = time.perf_counter() + 60 * minutes
    for number, row in enumerate(rows, 1):
        print(f"[{number}/{len(rows)}] {row.name} ... ", end="", flush=True)
        start = time.perf_counter()
        if start > end:
            print("skipped, out of time", flush=True)
            continue
        results[row.name] = result = measure_row(row)
        print(f"{outcome(result)} ({time.perf_counter() - start:.0f} s)", flush=True)
        results = {other.name: results[other.name] for other in all_rows if other.name in results}
        with atomic_write(str(path)) as file:
            file.write(json.dumps(results, indent=1) + "\n")
    return results


def measure_row(row: Row) -> dict:
    """The comparison of a row, or {"error": message} if it failed."""
    # In a separate process, because memory that earlier rows have left behind changes the times.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=context, initializer=end_with_parent) as process:
            return process.submit(_compare, row, torch.get_num_threads()).result()
    # No error of one row may prevent the others.
    except Exception as error:
        message = str(error).strip() or "no message"
        return {"error": f"{type(error).__name__}: {message.splitlines()[0]}"}


def _compare(row: Row, threads: int) -> dict:
    torch.set_num_threads(threads)
    device = row.ours.device
    use_device(device)
    return compare(row.work, row.ours, row.peer, ROUNDS[device], MAX_SECONDS[device])


def outcome(result: dict) -> str:
    """A result in a few words."""
    if "error" in result:
        return f"failed: {result['error']}"
    ratio = result["seconds"]["ratio"]
    return f"{ratio['median']:.2f} ({ratio['minimum']:.2f} to {ratio['maximum']:.2f})"


def reaches_floor(row: Row, result: dict) -> bool:
    """Whether a row has been measured and its median ratio is at least its floor."""
    if "seconds" not in result:
        return False
    return row.floor is None or result["seconds"]["ratio"]["median"] >= row.floor


def read(path: Path) -> dict[str, dict]:
    """The results in a file; none if there is no file.

    Raises:
        UserError: if the file is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise UserError(f"{path} is not a file of results ({error}): remove it.") from error
