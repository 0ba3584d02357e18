"""``systems``: speed of training and of translation of all systems of an experiment, in turn.

The models are not trained: every hypothesis is as long as the longest source of its batch, so that
all systems do the same work.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from convs2s.common.output_files import atomic_write, check_text_writable
from convs2s.experiments.file import System
from convs2s.experiments.reader import read_experiment

from .machine import machine
from .measure import alternate, ratios, summary
from .options import add_device, add_numbers
from .sentences import sentences
from .setting import Setting, use_device
from .workloads import generation, training

SUBSETS = {"tokens_per_second": "train", "sentences_per_second": "test"}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``systems``."""
    add = parser.add_argument
    add("file", type=Path, metavar="FILE.yaml", help="the file of `convs2s experiment`")
    add("data", metavar="DATA_BIN", help="a folder written by fairseq-preprocess")
    add_numbers(parser, sentences=128, batches=4, beam=5, rounds=5)
    add(
        "--speeds",
        type=Path,
        metavar="FILE",
        help="also write the speeds as `convs2s experiment --speed` does, to OUT/speed.json",
    )
    add_device(parser)


def run(args: argparse.Namespace) -> dict:
    """Measure every system that has a training run of its own.

    Returns:
        The target tokens per second in training, the sentences per second in translation, and both
        relative to the baseline of the experiment, or to the first system that is measured, in the
        same round.
    Raises:
        UserError: if the file, the data or the device cannot be used.
    """
    use_device(args.device)
    if args.speeds:
        check_text_writable(str(args.speeds))
    experiment = read_experiment(args.file)
    systems = {
        name: system
        for name, system in experiment.systems.items()
        if system.runs_of is None and not system.ensemble
    }
    settings = {
        system.title: model_setting(system)._replace(
            sentences=args.sentences,
            beam=args.beam,
            device=args.device,
            data=args.data,
            batches=args.batches,
        )
        for system in systems.values()
    }
    # One that takes the models of others is not measured.
    baseline = systems.get(experiment.baseline or "", next(iter(systems.values()))).title
    work = {
        "tokens_per_second": trainings(settings),
        "sentences_per_second": searches(settings),
    }
    rates, relative = {}, {}
    for unit, timed in work.items():
        times = alternate(timed, args.rounds, warmup=1, device=args.device)
        amount = amount_of_work(unit, next(iter(settings.values())))
        rates[unit] = {
            title: summary([amount / each for each in seconds]) for title, seconds in times.items()
        }
        relative[unit] = {
            title: summary(ratios(times[baseline], seconds)) for title, seconds in times.items()
        }
    if args.speeds:
        write_speeds(args.speeds, {name: system.title for name, system in systems.items()}, rates)
    return {
        "machine": machine(args.device),
        "sentences": args.sentences,
        "batches": args.batches,
        "beam": args.beam,
        "baseline": baseline,
        "settings": {title: setting._asdict() for title, setting in settings.items()},
        "rates": rates,
        "relative_rates": relative,
    }


def model_setting(system: System) -> Setting:
    """The setting of a system's model, with the criterion and the precision of its training."""
    train = dict(system.train)
    arch, criterion = str(train.pop("arch")), train.pop("criterion", None)
    dtype = train.pop("autocast-dtype", None) or "float32"
    options = tuple((name.replace("-", "_"), value) for name, value in train.items())
    return Setting(arch, dtype=dtype, criterion=criterion, options=options)


def trainings(settings: dict[str, Setting]) -> dict[str, Callable[[], object]]:
    """Training steps of each system in the precision of its training."""
    return {title: training(setting).run for title, setting in settings.items()}


def searches(settings: dict[str, Setting]) -> dict[str, Callable[[], object]]:
    """Beam search of each system in single precision."""
    return {
        title: generation(setting._replace(dtype="float32")).run
        for title, setting in settings.items()
    }


def amount_of_work(unit: str, setting: Setting) -> int:
    """The target tokens or the sentences in the batches of a setting."""
    batches = sentences(setting, SUBSETS[unit]).batches
    key = "ntokens" if unit == "tokens_per_second" else "nsentences"
    return sum(batch[key] for batch in batches)


def write_speeds(path: Path, titles: dict[str, str], rates: dict[str, dict]) -> None:
    """Write the file from which ``convs2s experiment`` reads speeds.

    Args:
        path: the file.
        titles: name of a system -> its title.
        rates: unit -> title -> median, minimum and maximum.
    """
    speeds = {
        name: {
            unit: {
                "median": values[title]["median"],
                "min": values[title]["minimum"],
                "max": values[title]["maximum"],
            }
            for unit, values in rates.items()
        }
        for name, title in titles.items()
    }
    with atomic_write(str(path)) as file:
        file.write(json.dumps(speeds, indent=2) + "\n")
