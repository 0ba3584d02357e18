"""``convs2s experiment``: train, translate and compare systems that a YAML file describes."""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import UserError
from ..common.limits import option_name
from ..common.names import check_name
from .arguments import add_flag, add_folder, add_input, add_number

if TYPE_CHECKING:
    from ..experiments.file import Experiment


# The options that a job of Slurm also gets: what the data and the runs depend on.
OF_RUNS = (
    "text bin prepared download smoke sets source target bpe_merges systems seeds limit_updates "
    "keep_checkpoints comet tracker"
).split()
# Options that a job of Slurm, or a single run, has no use for, or that choose something else.
OF_ONE_MACHINE = "report dry_run list only jobs speed".split()
# Option -> those that it leaves nothing to do for.
MEANINGLESS = {
    "only": "jobs speed".split(),
    "report": ["comet"],
    "list": "comet tracker".split(),
}


class _PrintSchema(argparse.Action):
    """Print the JSON schema of an experiment file and exit, as ``--help`` does with the help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from ..experiments.reader import schema

        print(json.dumps(schema(), indent=2))
        parser.exit()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "file", metavar="FILE.yaml", type=Path, help="description of the experiment"
    )
    text = "output folder (default: the file's name with _out)"
    add_folder(parser, "--out", text, type=Path)
    add_number(parser, "--jobs", "runs at a time", 1, least=1)
    parser.add_argument(
        "--systems", metavar="NAME", nargs="+", default=[], help="run only these systems"
    )
    text = "run only these seeds; they may differ from those in the file"
    parser.add_argument("--seeds", metavar="N", nargs="+", type=int, default=[], help=text)
    text = "data sets, in place of those in the file"
    parser.add_argument("--sets", metavar="NAME", nargs="+", help=text)
    parser.add_argument("--source", metavar="LANGUAGE", help="source language")
    parser.add_argument("--target", metavar="LANGUAGE", help="target language")
    add_number(parser, "--bpe-merges", "number of BPE merges; 0: no BPE", least=0)
    data = parser.add_mutually_exclusive_group()
    add_folder(data, "--text", "folder of the text", type=Path)
    text = "data that fairseq-preprocess binarized"
    add_folder(data, "--data-bin", text, dest="bin", type=Path)
    add_folder(data, "--prepared", "folder that `convs2s prepare` wrote", type=Path)
    add_flag(data, "--download", "download the text from the address in the file")
    text = (
        "try the file quickly: generated text, two updates, one seed, and the options in "
        "its section smoke"
    )
    add_flag(data, "--smoke", text)
    parts = parser.add_mutually_exclusive_group()
    add_flag(parts, "--report", "only write the tables from the finished runs")
    add_flag(parts, "--dry-run", "check the options, print the commands and run none")
    add_flag(parts, "--list", "only print the runs, their states and what they need")
    text = "do one run of --list, for a scheduler; the last one writes the tables"
    parts.add_argument("--run", metavar="NAME", dest="only", help=text)
    add_flag(parser, "--json", "print JSON in place of the table of --list")
    text = "after all runs, measure the speeds of all systems in turn, one program at a time"
    add_flag(parser, "--speed", text)
    text = "keep all checkpoints of finished training runs, not only their average"
    add_flag(parser, "--keep-checkpoints", text)
    text = "also score final runs with this model of COMET; see `convs2s evaluate --comet`"
    add_input(parser, "--comet", text)
    text = "record the report with a tracker that is installed, on this machine unless it is set up"
    parser.add_argument("--tracker", choices=("trackio", "wandb", "mlflow"), help=text)
    text = "what carries out the runs: this command, or jobs of Slurm, which it submits"
    parser.add_argument("--launcher", choices=("local", "slurm"), default="local", help=text)
    text = "options of sbatch for --launcher slurm, such as partition=gpu time=8:00:00"
    parser.add_argument("--slurm", metavar="KEY=VALUE", nargs="+", default=[], help=text)
    text = "print the JSON schema of FILE.yaml, for editors to check it with"
    parser.add_argument("--schema", nargs=0, action=_PrintSchema, help=text)
    text = "at most N updates in each training run, to see whether everything works"
    add_number(parser, "--limit-updates", text, least=1)


def run(args: argparse.Namespace) -> int:
    """Carry out what is missing from the experiment and print its tables."""
    # Looking for plugins of pydantic in every installed package takes longer than reading the file.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Only help does without these, and answers at once.
    from ..experiments.reader import read_experiment, smoke_run
    from ..experiments.workflow import Request, perform

    _check_parts(args)
    experiment = _override(read_experiment(args.file), args)
    args.out = args.out or Path(f"{args.file.stem}_{'smoke' if args.smoke else 'out'}")
    args.job = _command(args) if args.launcher == "slurm" else None
    request = Request(**{each.name: getattr(args, each.name) for each in fields(Request)})
    if not args.smoke:
        return perform(experiment, request)
    with tempfile.TemporaryDirectory() as folder:
        # Of the seeds, a smoke run has the first one.
        return perform(smoke_run(experiment, Path(folder)), replace(request, seeds=()))


def _check_parts(args: argparse.Namespace) -> None:
    """Refuse options that have no meaning without another one, or with it."""
    if args.json and not args.list:
        raise UserError("--json needs --list, whose table it replaces.")
    if args.launcher == "local" and args.slurm:
        raise UserError(f"--slurm {' '.join(args.slurm)} needs --launcher slurm.")
    without = {"--launcher slurm": OF_ONE_MACHINE} if args.launcher == "slurm" else {}
    without |= {_flag(name): names for name, names in MEANINGLESS.items() if getattr(args, name)}
    for option, names in without.items():
        for name in names:
            if args.jobs > 1 if name == "jobs" else getattr(args, name):
                raise UserError(f"{_flag(name)} has no meaning with {option}: omit one of them.")


def _flag(name: str) -> str:
    return "--run" if name == "only" else option_name(name)


def _command(args: argparse.Namespace) -> list[str]:
    """The command that does one run of the same experiment, without its name."""
    words = [sys.executable, "-m", "convs2s", "experiment", str(args.file.resolve())]
    words += ["--out", str(args.out.resolve())]
    for name in OF_RUNS:
        value = getattr(args, name)
        if value is None or value is False or value == []:
            continue
        words.append("--data-bin" if name == "bin" else option_name(name))
        if value is not True:
            words += map(str, value if isinstance(value, list) else [value])
    return words


def _override(experiment: "Experiment", args: argparse.Namespace) -> "Experiment":
    """The experiment with the changes of the command line."""
    from ..experiments.faults import faults_of_folders, faults_of_sets

    if min(args.seeds, default=0) < 0 or len(set(args.seeds)) < len(args.seeds):
        shown = " ".join(map(str, args.seeds))
        raise UserError(f"--seeds is {shown}: give different integers of at least 0.")
    for name in args.systems:
        if name not in experiment.systems:
            raise UserError(
                f"--systems has '{name}', which is not a system of {args.file}; choose "
                f"{', '.join(experiment.systems)}."
            )
    for side in ("source", "target"):
        if getattr(args, side) is not None:
            check_name(getattr(args, side), f"--{side}")
    for name in args.sets or ():
        check_name(name, "--sets")
    names = ("source", "target", "text", "bin", "prepared", "sets", "bpe_merges")
    given = {name: value for name in names if (value := getattr(args, name)) is not None}
    data = replace(experiment.data, **given)
    if args.text or args.download or args.smoke:
        # As `convs2s prepare` does unless it is told otherwise.
        joined = data.joined_dictionary or data.prepared is not None
        data = replace(data, bin=None, prepared=None, joined_dictionary=joined)
    if args.bin is not None:
        data = replace(data, prepared=None)
    if args.prepared is not None:
        data = replace(data, bin=None, text=None, download=None)
    if args.bpe_merges is not None and not data.needs_text:
        raise UserError(
            f"--bpe-merges cannot change binarized data, {data.bin or data.prepared}: omit it."
        )
    if not args.smoke:
        faults = faults_of_sets(data, experiment.tuning)
        for fault in chain(faults, faults_of_folders(data, experiment.systems)):
            raise UserError(f"{fault}.")
    for side in ("source", "target"):
        if data.needs_text and getattr(data, side) is None:
            raise UserError(f"There is no {side} language: give it with --{side}.")
    systems = experiment.systems
    if args.seeds:
        systems = {
            name: replace(system, seeds=_seeds(system.seeds, args))
            for name, system in systems.items()
        }
    return replace(experiment, data=data, systems=systems, limit_updates=args.limit_updates)


def _seeds(seeds: tuple[int, ...], args: argparse.Namespace) -> tuple[int, ...]:
    """The seeds of a system and those of the command line; a smoke run has only the latter."""
    if not seeds:
        return ()
    return tuple(dict.fromkeys([*(() if args.smoke else seeds), *args.seeds]))
