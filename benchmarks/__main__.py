"""``python -m benchmarks WHAT``: how fast we are beside a peer, and what that depends on."""

import argparse
import json
import sys
from pathlib import Path

from convs2s_plugin.fairseq_compat.messages import sentence_for
from convs2s_plugin.text_files import write_whole

from . import compare, growth, loss, readme, speed, table
from .report import report


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, help_text in (
        ("train", "a training step: forward, loss and backward"),
        ("generate", "beam search"),
        ("memory", "the most memory that either takes"),
    ):
        command = commands.add_parser(name, help=help_text)
        compare.add_options(command, name)
        _add_json(command, compare.run)
    command = commands.add_parser("loss", help="the loss alone, from features to gradients")
    loss.add_options(command)
    _add_json(command, loss.run)
    for name, module, help_text in (
        ("table", table, "many comparisons, and the tables of README.md"),
        ("growth", growth, "time against length, batch, vocabulary and depth"),
        ("speed", speed, "sentences a second that checkpoints translate"),
    ):
        module.add_options(commands.add_parser(name, help=help_text))
    command = commands.add_parser("readme", help="README.md's tables, from results that are there")
    command.set_defaults(run=lambda args: readme.write())
    return parser.parse_args()


def _add_json(parser: argparse.ArgumentParser, run) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    parser.set_defaults(run=lambda args: one(run, args))


def one(run, args: argparse.Namespace) -> None:
    """Measure one thing, print it, and write JSON where wanted."""
    result = run(args)
    print(report(result))
    if args.json:
        with write_whole(str(args.json)) as file:
            file.write(json.dumps(result, indent=2) + "\n")


def main() -> int:
    """Do what the command line says; the exit status."""
    args = parse_arguments()
    try:
        return args.run(args) or 0
    except Exception as error:
        sentence = sentence_for(error)
        if sentence is None:
            raise
        print(f"benchmarks: error: {sentence}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
