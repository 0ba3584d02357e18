"""``convs2s plot``: curves of training runs, and scores by length, data set, option and speed."""

import argparse
import os
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.output_files import check_writable
from ..pictures import lengths, sets, speeds, sweep, training
from ..pictures.figures import check_format, import_pyplot, save_figure
from .arguments import add_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of plots, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)

    def add_kind(name: str, text: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=text, description=text)
        about = "plot to write, a .png, .pdf or .svg file (default: %(default)s)"
        add_file(kind, "--output", about, default=f"{name}.png")
        return kind

    add_kind(
        "training",
        "loss, perplexity, BLEU, learning rate and speed of one or several training runs",
    ).add_argument(
        "logs",
        nargs="+",
        metavar="[NAME=]LOG",
        help="log that fairseq-train printed, or wrote with --log-file, in any --log-format but "
        "none",
    )
    add_kind("lengths", "BLEU by length for each system").add_argument(
        "scores", metavar="FILE", help="file of `convs2s evaluate --output`"
    )
    kind = add_kind(
        "sweep", "the score over the values of an option, with standard deviation over seeds"
    )
    kind.add_argument("results", metavar="FILE", help="results.json of `convs2s experiment`")
    text = "option of fairseq-train, such as dropout (default: the only one that differs)"
    kind.add_argument("--option", metavar="NAME", help=text)
    text = "test set, or valid (default: the first test set; valid if only trials differ)"
    kind.add_argument("--split", metavar="NAME", help=text)
    for name, what in (
        ("sets", "scores of each system on several data sets"),
        ("speeds", "the score of each system over its speed in training and in translation"),
    ):
        kind = add_kind(name, what)
        kind.add_argument("results", metavar="FILE", help="results.json of `convs2s experiment`")
        text = "test set, or valid (default: the first test set)"
        kind.add_argument("--split", metavar="NAME", help=text)


def run(args: argparse.Namespace) -> int:
    """Read the results, and write the plot."""
    check_format(args.output)
    found: Any
    plot: Any
    if args.kind == "training":
        # With NAME=LOG, the file may be the whole text or what follows the name.
        check_writable(args.output, [*args.logs, *(log.partition("=")[2] for log in args.logs)])
        found, plot = _read_trainings(args.logs), training.plot
    elif args.kind == "lengths":
        check_writable(args.output, [args.scores])
        found, plot = lengths.read_length_results(args.scores), lengths.plot
    elif args.kind == "sets":
        check_writable(args.output, [args.results])
        found, plot = sets.read_scores(args.results, args.split), sets.plot
    elif args.kind == "speeds":
        check_writable(args.output, [args.results])
        found, plot = speeds.read_speeds(args.results, args.split), speeds.plot
    else:
        check_writable(args.output, [args.results])
        option = args.option and args.option.lstrip("-")
        found, plot = sweep.read_sweep(args.results, option, args.split), sweep.plot
    pyplot = import_pyplot()
    figure = plot(pyplot, found)
    save_figure(figure, args.output)
    pyplot.close(figure)
    print(args.output)
    return 0


def _read_trainings(texts: list[str]) -> dict[str, training.TrainingCurves]:
    """The curves by name, which is by default the folder of a log, or its file name."""
    trainings: dict[str, training.TrainingCurves] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or os.path.exists(text):
            name, path = "", text
        name = name or Path(path).parent.name or Path(path).stem
        if name in trainings:
            raise UserError(f"Two logs are called {name}: give names, such as baseline={path}.")
        trainings[name] = training.read_training_curves(path)
    return trainings
