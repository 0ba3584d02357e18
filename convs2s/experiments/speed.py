"""Measure the speeds of all systems alone: one program at a time, with all cores or one GPU."""

import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.programs import Programs
from . import logs
from .commands import measured_training_command, translation_command
from .results import Results, read_json, write_json
from .runs import Run

# Each system is measured so many times, in turn with the others.
ROUNDS = 3
# Updates of a training, and between two lines of its log, of which the first is a warm-up.
UPDATES, INTERVAL = 40, 10


@dataclass(frozen=True)
class Speeds(Results):
    """Measures speeds and writes ``OUT/speed.json``.

    Attributes:
        out, data, machine: see ``Results``; the machine is that of one program that runs alone.
        programs: starts programs.
    """

    programs: Programs

    def measure(self, runs: Sequence[Run], say: Callable[[str], None]) -> None:
        """Measure the translation of the first test set, and the start of a training.

        Systems that are not measured keep the speeds in the file.

        Args:
            runs: a finished run of each system; one that uses the model of another is not trained.
            say: prints a line.
        """
        found: dict[str, dict[str, list[float]]] = {run.system.name: {} for run in runs}
        if not self.programs.dry:
            shutil.rmtree(self.out / "speed", ignore_errors=True)
        for number in range(1, ROUNDS + 1):
            for run in runs:
                say(f"Speed of {run.system.name}, round {number} of {ROUNDS}")
                folder = self.out / "speed" / f"{run.system.folder_name}.{number}"
                speeds = {"sentences_per_second": self.translate(run, folder)}
                if run.base is None:
                    speeds["tokens_per_second"] = self.train(run, folder)
                for unit, speed in speeds.items():
                    if speed is not None:
                        found[run.system.name].setdefault(unit, []).append(speed)
        if not self.programs.dry:
            earlier = read_json(self.out / "speed.json") or {}
            write_json(self.out / "speed.json", {**earlier, **summarize(found)})

    def translate(self, run: Run, folder: Path) -> float | None:
        """Sentences per second."""
        checkpoint = self.folder(run.base or run.name) / "average.pt"
        subset = self.data.tests[self.data.first_test]
        command = translation_command(self.data, self.machine, run, checkpoint, subset)
        output, log = folder / "test.out", folder / "test.log"
        if not self.programs.dry:
            folder.mkdir(parents=True)
        self.programs.run(command, log, stdout=output, environment=self.machine.environments[0])
        if self.programs.dry:
            return None
        return logs.read_sentences_per_second(log.read_text("utf-8") + output.read_text("utf-8"))

    def train(self, run: Run, folder: Path) -> float | None:
        """Tokens per second."""
        command = measured_training_command(
            self.data, self.machine, run, self.out / "runs", UPDATES, INTERVAL
        )
        log = folder / "train.log"
        self.programs.run(command, log, environment=self.machine.environments[0])
        if self.programs.dry:
            return None
        speeds = logs.training_speeds(log.read_text(encoding="utf-8"))[1:]
        return statistics.median(speeds) if speeds else None


def summarize(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """The median, minimum and maximum of each speed of each system."""
    return {
        system: {
            unit: {"median": statistics.median(speeds), "min": min(speeds), "max": max(speeds)}
            for unit, speeds in units.items()
        }
        for system, units in found.items()
    }
