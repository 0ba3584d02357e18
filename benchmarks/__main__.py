"""``python -m benchmarks COMMAND``: time and memory of this package's models and of their peers."""

import argparse
import json
import sys
from pathlib import Path

from convs2s.common.output_files import atomic_write, check_text_writable
from convs2s_plugin.compat.messages import user_message

from . import (
    compare,
    families,
    growth,
    layers,
    loss,
    pages,
    preparation,
    search,
    speed,
    systems,
    table,
    translate,
)
from .report import report


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_text in (
        ("train", "time training steps: forward pass, loss and backward pass"),
        ("generate", "time beam search"),
        ("memory", "compare peak memory"),
    ):
        command = commands.add_parser(name, help=help_text)
        compare.add_options(command, name)
        _add_json(command, compare.run)
    for name, module, help_text in (
        ("loss", loss, "compare the loss alone, from features to gradients"),
        ("search", search, "compare beam search alone, in the best tokens and in all of them"),
        ("speed", speed, "sentences per second of checkpoints on a test set"),
        ("families", families, "time and memory of each family for short and long sentences"),
        ("layers", layers, "time of the layers of the language beside self-attention"),
        ("systems", systems, "training and translation of all systems of an experiment"),
        ("translate", translate, "convs2s translate beside fairseq-interactive"),
        ("prepare", preparation, "time and peak memory of convs2s prepare on generated text"),
    ):
        command = commands.add_parser(name, help=help_text)
        module.add_options(command)
        _add_json(command, module.run)
    for name, module, help_text in (
        ("table", table, "measure many comparisons and write the documentation's tables"),
        ("growth", growth, "time against length, batch size, vocabulary and depth"),
    ):
        module.add_options(commands.add_parser(name, help=help_text))
    command = commands.add_parser(
        "pages", help="write the documentation's tables from existing results"
    )
    command.set_defaults(run=lambda args: pages.write())
    return parser.parse_args()


def _add_json(parser: argparse.ArgumentParser, run) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    parser.set_defaults(run=lambda args: run_and_report(run, args))


def run_and_report(run, args: argparse.Namespace) -> None:
    """Measure, print the result, and write it as JSON if ``--json`` is given."""
    if args.json:
        check_text_writable(str(args.json))
    result = run(args)
    print(report(result))
    if args.json:
        with atomic_write(str(args.json)) as file:
            file.write(json.dumps(result, indent=2) + "\n")


def main() -> int:
    """Run the command line and return the exit status."""
    args = parse_arguments()
    try:
        return args.run(args) or 0
    except Exception as error:
        message = user_message(error)
        if message is None and isinstance(error, OSError):
            message = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}."
        if message is None:
            raise
        print(f"benchmarks: error: {message}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
