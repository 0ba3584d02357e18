"""``convs2s find-lr``: suggest a learning rate with a short sweep, the LR range test."""

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq.dataclass.configs import FairseqConfig

from convs2s_plugin.compat.training_options import parse_training_options
from convs2s_plugin.optim.lr_suggestion import (
    MIN_POINTS,
    Point,
    Suggestion,
    finite,
    group,
    smoothed,
    suggest,
)
from convs2s_plugin.optim.lr_sweep import sweep

from ..common.errors import UserError
from ..common.output_files import atomic_write, check_writable
from ..common.progress import Progress
from ..common.quiet import quiet
from .plots import check_format, import_pyplot, save_figure

# Width of the plot in the table, in characters.
WIDTH = 40
# Options that a sweep ignores, apart from those about saving and validation.
UNUSED = ("--lr", "--lr-scheduler", "--warmup-updates", "--max-update", "--max-epoch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command; fairseq-train parses all others."""
    parser.usage = "convs2s find-lr DATA --arch ARCH --optimizer NAME [options]"
    parser.epilog = (
        "All other arguments are those of fairseq-train, which are best copied from the training. "
        "--user-dir is needed for packages of your own only."
    )
    parser.add_argument(
        "--min-lr",
        metavar="LR",
        type=float,
        default=1e-5,
        help="first learning rate (default: %(default)s)",
    )
    parser.add_argument(
        "--max-lr",
        metavar="LR",
        type=float,
        default=1.0,
        help="last learning rate; the sweep ends earlier if the loss explodes (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--sweep-updates",
        metavar="N",
        type=int,
        default=100,
        help="number of updates (default: %(default)s)",
    )
    parser.add_argument(
        "--smoothing",
        metavar="B",
        type=float,
        default=0.9,
        help="smooth the losses: an update that is n updates away has the weight B to the power "
        "of n; 0 smooths nothing (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        default="lr.png",
        help="plot to write, a .png, .pdf or .svg file; the numbers are written to a .json file "
        "beside it (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the sweep; print the losses and the suggestion, write the numbers and the plot."""
    _check(args)
    numbers = str(Path(args.output).with_suffix(".json"))
    # Files that options of fairseq-train name.
    read = [argument.partition("=")[2] or argument for argument in args.forwarded]
    for path in (args.output, numbers):
        check_writable(path, read)
    with quiet():
        cfg = parse_training_options(args.forwarded)
        _announce(args, cfg)
        points = _sweep(args, cfg)
    suggestion = suggest(points, args.smoothing, exploded=len(points) < args.sweep_updates)
    label = _loss_label(cfg)
    print(table(points, suggestion, label))
    print(_advice(args, points, suggestion))
    with atomic_write(numbers) as file:
        json.dump(_as_dict(args, points, suggestion), file, indent=1)
    print(numbers)
    try:
        pyplot = import_pyplot()
    except UserError as error:
        print(f"{args.output} was not written. {error}")
        return 0
    figure = plot(pyplot, points, suggestion, args.smoothing, label)
    save_figure(figure, args.output)
    pyplot.close(figure)
    print(args.output)
    return 0


def table(points: Sequence[Point], suggestion: Suggestion, label: str) -> str:
    """The mean loss of ranges of the learning rate as text: numbers and a plot of one dot a line.

    Args:
        points: the sweep.
        suggestion: the line of its learning rate is marked.
        label: what the loss is.
    """
    groups = group(points)
    losses = [row.loss for row in groups if math.isfinite(row.loss)]
    low = min(losses, default=0.0)
    # Losses of an explosion would leave no room for the others.
    high = max([loss for loss in losses if loss <= 1.1 * losses[0]], default=low)
    marked = None
    if suggestion.lr is not None:
        target = math.log(suggestion.lr)
        marked = min(groups, key=lambda row: abs(math.log(row.lr) - target))
    lines = [f"{'learning rate':>13}  {label}"]
    for row in groups:
        position = (row.loss - low) / ((high - low) or 1.0)
        if not math.isfinite(position) or position > 1.0:
            dot = " " * WIDTH + ">"
        else:
            dot = " " * round((WIDTH - 1) * position) + "*"
        mark = f"{'':{WIDTH + 3 - len(dot)}}<- suggestion" if row == marked else ""
        lines.append(f"{row.lr:>13.1e}  {row.loss:7.2f}  {dot}{mark}")
    return "\n".join(lines)


def plot(
    pyplot: Any,
    points: Sequence[Point],
    suggestion: Suggestion,
    smoothing: float,
    label: str,
) -> Any:
    """Return a figure of the losses over the learning rate, with the suggestion marked."""
    figure, axis = pyplot.subplots(figsize=(7.0, 4.2), layout="constrained")
    usable = finite(points)
    curve = smoothed(points, smoothing)
    rates = [point.lr for point in usable]
    axis.plot(rates, [point.loss for point in usable], ".", color="0.7", label="one update")
    axis.plot(rates, curve, color="C0", linewidth=2, label="smoothed")
    if suggestion.lr is not None:
        axis.axvline(
            suggestion.lr, color="C3", linestyle="--", label=f"suggestion: {suggestion.lr:g}"
        )
    if curve:
        low, high = min(curve), max(curve)
        margin = 0.15 * (high - low) or 1.0
        # Losses of an explosion would leave no room for the others.
        axis.set_ylim(low - 2 * margin, high + 2 * margin)
    axis.set_xscale("log")
    axis.set_xlabel("learning rate (log scale)")
    axis.set_ylabel(label)
    axis.set_title("Learning rate range test")
    axis.grid(color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


def _check(args: argparse.Namespace) -> None:
    if not 0.0 < args.min_lr < args.max_lr < math.inf:
        raise UserError(
            f"--min-lr is {args.min_lr:g} and --max-lr is {args.max_lr:g}: both must be positive, "
            "and --min-lr the smaller one."
        )
    if args.sweep_updates < MIN_POINTS:
        raise UserError(
            f"--sweep-updates is {args.sweep_updates}: it must be at least {MIN_POINTS}."
        )
    if not 0.0 <= args.smoothing < 1.0:
        raise UserError(f"--smoothing is {args.smoothing:g}: it must be at least 0 and below 1.")
    check_format(args.output)


def _announce(args: argparse.Namespace, cfg: FairseqConfig) -> None:
    given = {argument.partition("=")[0] for argument in args.forwarded}
    unused = [option for option in UNUSED if option in given]
    if unused:
        print(f"The sweep sets the learning rate itself and ignores {', '.join(unused)}.")
    workers = cfg.distributed_training.distributed_world_size
    if workers > 1:
        print(f"One GPU does the work of {workers}: it adds up the gradients of their batches.")
    print(
        f"The learning rate grows from {args.min_lr:g} to {args.max_lr:g} in "
        f"{args.sweep_updates} updates."
    )


def _sweep(args: argparse.Namespace, cfg: FairseqConfig) -> list[Point]:
    with Progress(unit="updates", total=args.sweep_updates) as progress:

        def report(point: Point) -> None:
            text = f"learning rate {point.lr:.1e}, loss {point.loss:.2f}"
            progress.set_postfix_str(text, refresh=False)
            progress.update()

        return sweep(cfg, args.min_lr, args.max_lr, args.sweep_updates, report)


def _advice(args: argparse.Namespace, points: Sequence[Point], suggestion: Suggestion) -> str:
    lines = [""]
    if len(points) < args.sweep_updates:
        lines.append(
            f"The loss exploded: the sweep ended at a learning rate of {points[-1].lr:.1e}."
        )
    if suggestion.lr is None:
        lines.append(f"There is no suggestion. {suggestion.remark}")
    else:
        double, triple = 2 * suggestion.lr, 3 * suggestion.lr
        lines += [
            f"Suggestion: --lr {suggestion.lr:g}",
            "Use it as the peak of a schedule with a warm-up, such as",
            "--lr-scheduler inverse_sqrt --warmup-updates 400. Use a lower one without a warm-up.",
            f"A sweep gives the order of magnitude: try --lr {double:g} and --lr {triple:g}, too.",
        ]
        if suggestion.remark:
            lines.append(suggestion.remark)
    return "\n".join([*lines, ""])


def _as_dict(
    args: argparse.Namespace, points: Sequence[Point], suggestion: Suggestion
) -> dict[str, Any]:
    """The content of the .json file."""
    curve: list[float | None] = [*smoothed(points, args.smoothing)]
    curve += [None] * (len(points) - len(curve))
    return {
        "suggestion": suggestion.lr,
        "remark": suggestion.remark,
        "smoothing": args.smoothing,
        "arguments": args.forwarded,
        "updates": [
            {
                "lr": point.lr,
                "loss": point.loss if math.isfinite(point.loss) else None,
                "smoothed": value,
            }
            for point, value in zip(points, curve)
        ],
    }


def _loss_label(cfg: FairseqConfig) -> str:
    name = str(cfg.criterion._name)
    return (
        "training loss (bits per token)" if "cross_entropy" in name else f"training loss ({name})"
    )
