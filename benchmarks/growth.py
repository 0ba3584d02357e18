"""``growth``: how the time of a training step and of beam search grows with their size."""

import argparse
import gc
import json
import math
from pathlib import Path

from convs2s.common.output_files import atomic_write

from . import growth_report
from .machine import machine
from .measure import alternate, summary
from .options import add_device
from .pages import DOCS
from .setting import Setting, use_device
from .workloads import WORKLOADS

# The setting of each family; each axis changes one field of it.
FAMILIES = {
    "ConvS2S": Setting("convs2s_iwslt_de_en", sentences=8),
    "pervasive attention": Setting("pervasive", sentences=1, layers=8),
    "ADL Transformer": Setting("adl_transformer_wmt", sentences=8),
}
AXES = {
    "length": (10, 25, 50, 100, 200),
    "sentences": (1, 2, 4, 8, 16, 32),
    "words": (4000, 10000, 40000, 160000),
    "layers": (2, 4, 8, 16),
}
# Number of rounds and time limit for each point.
ROUNDS = 7
MAX_SECONDS = 2.0
# A curve ends with the first point whose shortest round takes longer.
LONGEST = 6.0

# Family -> work -> axis -> points.
Curves = dict[str, dict[str, dict[str, list[dict]]]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``growth``."""
    add_device(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=DOCS,
        metavar="FOLDER",
        help="write growth.json and growth.png to this folder (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure all axes of all families and write the report.

    Raises:
        UserError: if torch has no such device, or a file cannot be written.
        OSError: if the folder cannot be made.
    """
    use_device(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    families = {name: setting._replace(device=args.device) for name, setting in FAMILIES.items()}
    curves = measure(families, AXES)
    result = {
        "machine": machine(args.device),
        "settings": {name: setting._asdict() for name, setting in families.items()},
        "curves": curves,
        "exponents": exponents(curves),
    }
    with atomic_write(str(growth_report.json_path(args.out))) as file:
        file.write(json.dumps(result, indent=1) + "\n")
    growth_report.plot(result, args.out)
    print(growth_report.table(result))
    return 0


def measure(families: dict[str, Setting], axes: dict[str, tuple[int, ...]]) -> Curves:
    """Measure curves of time against size.

    Args:
        families: name -> the setting that the axes change.
        axes: field of Setting -> its values in ascending order.
    Returns:
        Family -> ``train`` or ``generate`` -> axis -> points in ascending order of size.
    """
    curves: Curves = {}
    for family, setting in families.items():
        curves[family] = {
            work: {axis: _curve(work, setting, axis, axes[axis]) for axis in axes}
            for work in ("train", "generate")
        }
        if setting.arch.startswith("pervasive"):
            for by_axis in curves[family].values():
                by_axis["cells"] = _against_cells(by_axis["length"] + by_axis["sentences"])
    return curves


def _curve(work: str, setting: Setting, axis: str, sizes: tuple[int, ...]) -> list[dict]:
    points: list[dict] = []
    for size in sizes:
        changed = setting._replace(**{axis: size})
        workload = WORKLOADS[work](changed)
        workload.warm_up()
        times = alternate({work: workload.run}, ROUNDS, 1, MAX_SECONDS, setting.device)[work]
        seconds = summary(times)
        cells = changed.sentences * changed.length**2
        points.append({"size": size, "cells": cells, "seconds": seconds})
        print(f"{work} {setting.arch}, {axis} {size:,}: {seconds['minimum']:.3f} s", flush=True)
        del workload
        gc.collect()
        if seconds["minimum"] > LONGEST:
            break
    return points


def _against_cells(points: list[dict]) -> list[dict]:
    """The same points with the number of grid cells as their size."""
    return sorted(
        ({**point, "size": point["cells"]} for point in points), key=lambda point: point["size"]
    )


def exponents(curves: Curves) -> dict[str, dict[str, dict[str, float | None]]]:
    """The exponent of every curve."""
    return {
        family: {
            work: {axis: exponent(points) for axis, points in by_axis.items()}
            for work, by_axis in by_work.items()
        }
        for family, by_work in curves.items()
    }


def exponent(points: list[dict]) -> float | None:
    """Fit p in time = c * size ** p; None for a curve of one size.

    The fit is least squares of logarithms over the upper half of the sizes. It uses the shortest
    time of each point, because other programs can only make times longer.
    """
    upper = points[max(0, min(len(points) // 2, len(points) - 2)) :]
    if len({point["size"] for point in upper}) < 2:
        return None
    x = [math.log(point["size"]) for point in upper]
    y = [math.log(point["seconds"]["minimum"]) for point in upper]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y))
    return covariance / sum((a - x_mean) ** 2 for a in x)
