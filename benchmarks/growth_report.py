"""The report on growth: a table of exponents, and a plot."""

import logging
from pathlib import Path

from convs2s.common.tables import markdown_table

AXIS_TITLES = {
    "length": "sentence length (tokens)",
    "sentences": "batch size (sentences)",
    "words": "vocabulary size",
    "layers": "layers",
    "cells": "grid cells",
}
TITLES = ("family", "work", "size", "from, to", "seconds", "exponent")
WORK_TITLES = {"train": "training step", "generate": "beam search"}


def json_path(folder: Path) -> Path:
    """The file of measurements in a folder."""
    return folder / "growth.json"


def table(result: dict) -> str:
    """The exponents as a Markdown table, and what each setting keeps fixed.

    Args:
        result: the content of growth.json.
    """
    rows = []
    for family, by_work in result["curves"].items():
        for work, by_axis in by_work.items():
            for axis, points in by_axis.items():
                first, last = points[0], points[-1]
                cells = (
                    family,
                    WORK_TITLES[work],
                    AXIS_TITLES[axis],
                    f"{first['size']:,} to {last['size']:,}",
                    " to ".join(f"{point['seconds']['minimum']:.3g}" for point in (first, last)),
                    format_exponent(result, family, work, axis),
                )
                rows.append(cells)
    lines = [markdown_table(TITLES, rows), "", "Sizes that a row does not change:", ""]
    for family, setting in result["settings"].items():
        depth = f", {setting['layers']} layers" if setting["layers"] else ""
        lines.append(
            f"* {family}: `{setting['arch']}`{depth}, batches of {setting['sentences']} x "
            f"{setting['length']} tokens, vocabulary {setting['words']:,}, beam "
            f"{setting['beam']}, {setting['dtype']}."
        )
    return "\n".join(lines)


def format_exponent(result: dict, family: str, work: str, axis: str) -> str:
    """The exponent of a curve with two decimals, or "none" for a curve of one point."""
    exponent = result["exponents"][family][work][axis]
    return "none" if exponent is None else f"{exponent:.2f}"


def plot(result: dict, folder: Path) -> None:
    """Draw growth.png: one row of curves for training steps, and one for beam search.

    Args:
        result: the content of growth.json.
        folder: an existing folder.
    """
    # Imported here because the other benchmarks do not need matplotlib. With fairseq's logging,
    # it would log every font that it considers.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    sizes: dict[str, set[int]] = {}
    for by_work in result["curves"].values():
        for by_axis in by_work.values():
            for axis, points in by_axis.items():
                sizes.setdefault(axis, set()).update(point["size"] for point in points)
    figure, grid = pyplot.subplots(
        len(WORK_TITLES), len(sizes), figsize=(3.4 * len(sizes), 6.4), squeeze=False, sharey="row"
    )
    for row, (work, title) in zip(grid, WORK_TITLES.items()):
        for plot_axes, axis in zip(row, sizes):
            for number, (family, by_work) in enumerate(result["curves"].items()):
                points = by_work[work].get(axis)
                if not points:
                    continue
                plot_axes.plot(
                    [point["size"] for point in points],
                    [point["seconds"]["minimum"] for point in points],
                    "o-",
                    color=f"C{number}",
                    markersize=3,
                    label=f"{family}: {format_exponent(result, family, work, axis)}",
                )
            plot_axes.set(xscale="log", yscale="log", xlabel=AXIS_TITLES[axis])
            plot_axes.yaxis.set_minor_formatter(ticker.NullFormatter())
            if axis != "cells":
                ticks = sorted(sizes[axis])
                plot_axes.set_xticks(ticks, [f"{size:,}" for size in ticks])
                plot_axes.tick_params(axis="x", labelsize="small")
                plot_axes.xaxis.set_minor_locator(ticker.NullLocator())
            plot_axes.legend(fontsize="x-small", title="exponents", title_fontsize="x-small")
            plot_axes.grid(alpha=0.3)
        row[0].set_ylabel(f"{title}, seconds")
    figure.tight_layout()
    figure.savefig(folder / "growth.png", dpi=80)
    pyplot.close(figure)
