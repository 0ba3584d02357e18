"""Measure the speeds of all systems alone: one program at a time, with all cores or one GPU."""

import shutil
import statistics
from collections.abc import Callable, Sequence

from . import logs
from .commands import measured_training_command
from .results import Workplace, read_json, sentences_per_second, write_json
from .run import translate
from .runs import Run

# Each system is measured so many times, in turn with the others.
ROUNDS = 3
# Updates of a training, and between two lines of its log, of which the first is a warm-up.
UPDATES, INTERVAL = 40, 10


def measure_speeds(place: Workplace, runs: Sequence[Run], say: Callable[[str], None]) -> None:
    """Measure the translation of the first test set and the start of a training: ``speed.json``.

    Systems that are not measured keep the speeds in the file.

    Args:
        place: the folders of all runs; its machine is that of one program that runs alone.
        runs: a finished run of each system; one that uses the model of another is not trained.
        say: prints a line.
    """
    dry, environment = place.programs.dry, place.machine.environments[0]
    found: dict[str, dict[str, list[float]]] = {run.system.name: {} for run in runs}
    if not dry:
        shutil.rmtree(place.out / "speed", ignore_errors=True)
    for number in range(1, ROUNDS + 1):
        for run in runs:
            say(f"Speed of {run.system.name}, round {number} of {ROUNDS}")
            folder = place.out / "speed" / f"{run.system.folder_name}.{number}"
            if not dry:
                folder.mkdir(parents=True)
            output, log = folder / "test.out", folder / "train.log"
            translate(place, run, place.data.tests[place.data.first_test], output, environment)
            if run.base is None:
                command = measured_training_command(
                    place.data, place.machine, run, place.out / "runs", UPDATES, INTERVAL
                )
                place.programs.run(command, log, environment=environment)
            if dry:
                continue
            speeds = {"sentences_per_second": sentences_per_second(output)}
            if run.base is None:
                logged = logs.training_speeds(log.read_text(encoding="utf-8"))[1:]
                speeds["tokens_per_second"] = statistics.median(logged) if logged else None
            for unit, speed in speeds.items():
                if speed is not None:
                    found[run.system.name].setdefault(unit, []).append(speed)
    if not dry:
        earlier = read_json(place.out / "speed.json") or {}
        write_json(place.out / "speed.json", {**earlier, **summarize(found)})


def summarize(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """The median, minimum and maximum of each speed of each system."""
    return {
        system: {
            unit: {"median": statistics.median(speeds), "min": min(speeds), "max": max(speeds)}
            for unit, speeds in units.items()
        }
        for system, units in found.items()
    }
