"""The curves of one or several training runs, from logs of fairseq-train.

A log may have any of fairseq's formats except ``--log-format none``.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.logs import read_stats
from ..common.text_files import read_lines
from .figures import color, label_axes, literal

WIDTH, HEIGHT = 5.2, 3.2
COLUMNS = 2
# Curves with many points are drawn as the means of this many windows.
WINDOWS = 200

# A value at some number of updates.
Series = dict[int, float]


class TrainingCurves(NamedTuple):
    """The curves of a training run, each a value by number of updates.

    Attributes:
        train: curves of the training batches, such as "loss", "lr" and "wps".
        valid: curves of the first validation set, such as "loss", "ppl" and "bleu".
    """

    train: dict[str, Series]
    valid: dict[str, Series]


def read_training_curves(path: str) -> TrainingCurves:
    """Read the curves in a log.

    After a restart, fairseq trains some updates again: the later value counts.

    Raises:
        UserError: if the file cannot be read, or has no line about training.
    """
    curves = TrainingCurves({}, {})
    for line in read_lines(path):
        stats = read_stats(line)
        if stats and stats.kind != "epoch":
            updates = int(stats.values.pop("num_updates"))
            of_split = curves.valid if stats.kind == "valid" else curves.train
            for name, value in stats.values.items():
                if math.isfinite(value):
                    of_split.setdefault(name, {})[updates] = value
    if not any(curve(curves, panel) for panel in PANELS):
        raise UserError(
            f"{path} has no lines about training: give a log that fairseq-train printed, or wrote "
            "with --log-file, but not with --log-format none."
        )
    return curves


class Panel(NamedTuple):
    """A panel of the figure.

    Attributes:
        of: "train" or "valid".
        name: the name of the curve in the log.
        title: what it shows, with its unit.
        log: whether the axis is logarithmic.
    """

    of: str
    name: str
    title: str
    log: bool = False


PANELS = (
    Panel("train", "loss", "training loss (bits per token)"),
    Panel("valid", "loss", "validation loss (bits per token)"),
    Panel("valid", "ppl", "validation perplexity", log=True),
    Panel("valid", "bleu", "validation BLEU"),
    Panel("train", "lr", "learning rate"),
    Panel("train", "wps", "training speed (tokens per second)"),
)


def curve(curves: TrainingCurves, panel: Panel) -> Series:
    """The curve of a panel; empty if the training run does not have it."""
    of_split = curves.train if panel.of == "train" else curves.valid
    series = of_split.get(panel.name, {})
    if panel.name == "wps":
        # The first line of a training run has no speed yet.
        return {updates: value for updates, value in series.items() if value > 0}
    return series


def smoothed(series: Series, windows: int = WINDOWS) -> Series:
    """A curve with at most ``windows`` points, each the mean of a window of updates."""
    points = sorted(series.items())
    size = -(-len(points) // windows)
    means = {}
    for start in range(0, len(points), max(size, 1)):
        window = points[start : start + size]
        middle = window[len(window) // 2][0]
        means[middle] = sum(value for _, value in window) / len(window)
    return means


def plot(pyplot: Any, trainings: Mapping[str, TrainingCurves]) -> Any:
    """Return a figure with a panel for each curve that a training run has.

    Args:
        pyplot: matplotlib.pyplot.
        trainings: the curves of each training run by its name.
    """
    panels = [
        panel for panel in PANELS if any(curve(curves, panel) for curves in trainings.values())
    ]
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(WIDTH * columns, HEIGHT * rows),
        layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for axis, panel in zip(axes.flat, panels):
        for number, (name, curves) in enumerate(trainings.items()):
            points = sorted(smoothed(curve(curves, panel)).items())
            axis.plot(
                [updates for updates, _ in points],
                [value for _, value in points],
                color=color(number),
                linewidth=1.5,
                marker="." if len(points) < 30 else None,
                label=literal(name),
            )
        if panel.log:
            axis.set_yscale("log")
        label_axes(axis, "updates", panel.title)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    if len(trainings) > 1:
        figure.legend(
            *axes.flat[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=min(len(trainings), 4),
            frameon=False,
        )
    return figure
