"""``growth``: how the time of our models grows with what they are given."""

import argparse
import gc
import json
import math
from pathlib import Path

from convs2s_plugin.text_files import write_whole

from . import growth_report
from .machine import machine
from .measure import alternate, summary
from .readme import ROOT
from .setting import DEVICES, Setting, use_device
from .work import WORK

FAMILIES = {
    "ConvS2S": Setting("convs2s_iwslt_de_en", sentences=8),
    "pervasive attention": Setting("pervasive", sentences=1, layers=8),
    "ADL Transformer": Setting("adl_transformer_wmt", sentences=8),
}
# What else a family has where another axis is measured is in FAMILIES.
AXES = {
    "length": (10, 25, 50, 100, 200),
    "sentences": (1, 2, 4, 8, 16, 32),
    "words": (4000, 10000, 40000, 160000),
    "layers": (2, 4, 8, 16),
}
ROUNDS = 7
# After so many seconds a point has rounds enough.
SECONDS = 2.0
# A point that takes so long is the last one of its axis.
LONGEST = 6.0

Curves = dict[str, dict[str, dict[str, list[dict]]]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``growth``."""
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "docs",
        metavar="FOLDER",
        help="gets growth.json, growth.md and growth.png (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure all axes of all families and write the report.

    Raises:
        UserError: where there is no such device, or the folder is not writable.
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
    with write_whole(str(args.out / "growth.json")) as file:
        file.write(json.dumps(result, indent=1) + "\n")
    growth_report.write(result, args.out)
    return 0


def measure(families: dict[str, Setting], axes: dict[str, tuple[int, ...]]) -> Curves:
    """Family -> train or generate -> axis -> points, smallest first.

    Args:
        families: name -> what is changed along the axes.
        axes: field of Setting -> its values, smallest first.
    """
    curves: Curves = {}
    for family, setting in families.items():
        curves[family] = {
            what: {axis: _curve(what, setting, axis, axes[axis]) for axis in axes} for what in WORK
        }
        if setting.arch.startswith("pervasive"):
            for points in curves[family].values():
                together = [point for axis in ("length", "sentences") for point in points[axis]]
                points["cells"] = sorted(
                    ({**point, "size": point["cells"]} for point in together),
                    key=lambda point: point["size"],
                )
    return curves


def _curve(what: str, setting: Setting, axis: str, sizes: tuple[int, ...]) -> list[dict]:
    points: list[dict] = []
    for size in sizes:
        changed = setting._replace(**{axis: size})
        work = WORK[what](changed)
        work.tiny()
        times = alternate({what: work.whole}, ROUNDS, 1, SECONDS, setting.device)[what]
        seconds = summary(times)
        cells = changed.sentences * changed.length**2
        points.append({"size": size, "cells": cells, "seconds": seconds})
        print(f"{what} {setting.arch}, {axis} {size:,}: {seconds['minimum']:.3f} s", flush=True)
        del work
        gc.collect()
        if seconds["minimum"] > LONGEST:
            break
    return points


def exponents(curves: Curves) -> dict[str, dict[str, dict[str, float | None]]]:
    """The exponent of every curve, of its upper half."""
    return {
        family: {
            what: {axis: exponent(points) for axis, points in by_axis.items()}
            for what, by_axis in by_work.items()
        }
        for family, by_work in curves.items()
    }


def exponent(points: list[dict]) -> float | None:
    """p of time = c * size ** p, by least squares of logarithms over the upper half of sizes.

    The shortest times count: what else runs on a machine only makes them longer.
    """
    upper = points[max(0, min(len(points) // 2, len(points) - 2)) :]
    if len({point["size"] for point in upper}) < 2:
        return None
    x = [math.log(point["size"]) for point in upper]
    y = [math.log(point["seconds"]["minimum"]) for point in upper]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y))
    return covariance / sum((a - x_mean) ** 2 for a in x)
