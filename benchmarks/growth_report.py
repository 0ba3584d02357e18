"""The report on growth: a table of exponents and a plot."""

import logging
from pathlib import Path

from convs2s_plugin.text_files import write_whole

TITLES = {
    "length": "words of a sentence",
    "sentences": "sentences of a batch",
    "words": "vocabulary",
    "layers": "layers",
    "cells": "cells of the grid",
}
WORK_TITLES = {"train": "training step", "generate": "beam search"}


def write(result: dict, folder: Path) -> None:
    """growth.md and growth.png in a folder.

    Args:
        result: what growth.json holds.
        folder: is there already.
    """
    with write_whole(str(folder / "growth.md")) as file:
        file.write(text(result))
    plot(result, folder / "growth.png")


def text(result: dict) -> str:
    """The exponents in Markdown, with the times of the smallest and the largest size."""
    machine = result["machine"]
    lines = [
        "# How time grows",
        "",
        "Written by `python -m benchmarks growth`. Time is about size to the power of the",
        "exponent, fitted over the upper half of the sizes; seconds are the shortest of some",
        "rounds, of the smallest and of the largest size.",
        "",
        f"Measured on {machine['device']}, {machine['threads']} threads, torch {machine['torch']}.",
        "",
        "![Time against size](growth.png)",
        "",
        "| family | work | grows with | sizes | seconds | exponent |",
        "|---|---|---|---|---|---|",
    ]
    for family, by_work in result["curves"].items():
        for what, by_axis in by_work.items():
            for axis, points in by_axis.items():
                first, last = points[0], points[-1]
                cells = (
                    family,
                    WORK_TITLES[what],
                    TITLES[axis],
                    f"{first['size']:,} to {last['size']:,}",
                    " to ".join(f"{point['seconds']['minimum']:.3g}" for point in (first, last)),
                    fitted(result, family, what, axis),
                )
                lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "What stays the same along an axis:", ""]
    for family, setting in result["settings"].items():
        depth = f", {setting['layers']} layers" if setting["layers"] else ""
        lines.append(
            f"* {family}: `{setting['arch']}`{depth}, {setting['words']:,} words, "
            f"{setting['sentences']} x {setting['length']}, beam {setting['beam']}, "
            f"{setting['dtype']}."
        )
    return "\n".join(lines) + "\n"


def fitted(result: dict, family: str, what: str, axis: str) -> str:
    """An exponent for people; a curve of one point has none."""
    exponent = result["exponents"][family][what][axis]
    return "none" if exponent is None else f"{exponent:.2f}"


def plot(result: dict, path: Path) -> None:
    """One row of curves for training, one for generation."""
    # Here, so that whoever measures other things needs no matplotlib. It logs much where fairseq
    # has set up logging.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    values: dict[str, set[int]] = {}
    for by_work in result["curves"].values():
        for by_axis in by_work.values():
            for axis, points in by_axis.items():
                values.setdefault(axis, set()).update(point["size"] for point in points)
    figure, grid = pyplot.subplots(
        len(WORK_TITLES), len(values), figsize=(3.4 * len(values), 6.4), squeeze=False, sharey="row"
    )
    for row, (what, title) in zip(grid, WORK_TITLES.items()):
        for place, axis in zip(row, values):
            for number, (family, by_work) in enumerate(result["curves"].items()):
                points = by_work[what].get(axis)
                if not points:
                    continue
                label = f"{family}: {fitted(result, family, what, axis)}"
                sizes = [point["size"] for point in points]
                times = [point["seconds"]["minimum"] for point in points]
                place.plot(sizes, times, "o-", color=f"C{number}", markersize=3, label=label)
            place.set(xscale="log", yscale="log", xlabel=TITLES[axis])
            place.yaxis.set_minor_formatter(ticker.NullFormatter())
            if axis != "cells":
                place.set_xticks(
                    sorted(values[axis]), [f"{size:,}" for size in sorted(values[axis])]
                )
                place.tick_params(axis="x", labelsize="small")
                place.xaxis.set_minor_locator(ticker.NullLocator())
            place.legend(fontsize="x-small", title="exponents", title_fontsize="x-small")
            place.grid(alpha=0.3)
        row[0].set_ylabel(f"{title}, seconds")
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    pyplot.close(figure)
