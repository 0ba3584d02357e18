"""``convs2s plot``: curves of trainings, BLEU by length, and sweeps of an option."""

import argparse
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.output_files import check_writable
from ..pictures import lengths, sweep, training
from ..pictures.figures import check_format, import_pyplot, save_figure
from .arguments import add_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of plots, each with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    help_text = "loss, perplexity, BLEU, learning rate and speed of one or several trainings"
    kind = kinds.add_parser("training", help=help_text, description=help_text)
    kind.add_argument(
        "logs",
        nargs="+",
        metavar="[NAME=]LOG",
        help="log that fairseq-train printed, or wrote with --log-file, in any --log-format but "
        "none",
    )
    _add_output(kind, "training.png")
    help_text = "BLEU by length for each system"
    kind = kinds.add_parser("lengths", help=help_text, description=help_text)
    kind.add_argument("scores", metavar="FILE", help="file of `convs2s evaluate --output`")
    _add_output(kind, "lengths.png")
    help_text = "BLEU over the values of an option, with standard deviation over seeds"
    kind = kinds.add_parser("sweep", help=help_text, description=help_text)
    kind.add_argument("results", metavar="FILE", help="results.json of `convs2s experiment`")
    kind.add_argument(
        "--option",
        metavar="NAME",
        help="option of fairseq-train, such as dropout (default: the only one that differs)",
    )
    kind.add_argument(
        "--split",
        metavar="NAME",
        help="test set, or valid (default: the first test set; valid if only trials differ)",
    )
    _add_output(kind, "sweep.png")


def _add_output(parser: argparse.ArgumentParser, default: str) -> None:
    add_file(
        parser,
        "--output",
        "plot to write, a .png, .pdf or .svg file (default: %(default)s)",
        default=default,
    )


def run(args: argparse.Namespace) -> int:
    """Read the results, and write the plot."""
    check_format(args.output)
    check_writable(args.output, _read(args))
    figure: Any
    if args.kind == "training":
        trainings = _read_trainings(args.logs)
        pyplot = import_pyplot()
        figure = training.plot(pyplot, trainings)
    elif args.kind == "lengths":
        results = lengths.read_length_results(args.scores)
        pyplot = import_pyplot()
        figure = lengths.plot(pyplot, results)
    else:
        option = args.option and args.option.lstrip("-")
        found = sweep.read_sweep(args.results, option, args.split)
        pyplot = import_pyplot()
        figure = sweep.plot(pyplot, found)
    save_figure(figure, args.output)
    pyplot.close(figure)
    print(args.output)
    return 0


def _read(args: argparse.Namespace) -> list[str]:
    """The files to read; of NAME=LOG, both what is whole and what follows the name."""
    if args.kind == "training":
        return [*args.logs, *(text.partition("=")[2] for text in args.logs)]
    return [args.scores if args.kind == "lengths" else args.results]


def _read_trainings(texts: list[str]) -> dict[str, training.TrainingCurves]:
    """The curves by name, which is by default the folder of a log, or its file name."""
    trainings: dict[str, training.TrainingCurves] = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or Path(text).exists():
            path = text
            name = Path(path).parent.name or Path(path).stem
        if name in trainings:
            raise UserError(f"Two logs are called {name}: give names, such as baseline={path}.")
        trainings[name] = training.read_training_curves(path)
    return trainings
