"""Carry out one run: train, average, translate, score."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.programs import ProgramFailed
from ..evaluation.nbest import first_texts
from . import logs
from .commands import training_command, translation_command
from .file import Averaging, Options
from .results import Workplace, add_time, read_lines, write_json, write_lines
from .runs import Run, best_search


def carry_out(place: Workplace, run: Run, slot: int, step: Callable[..., None]) -> None:
    """Do all that is missing of a run.

    Args:
        place: the folders of all runs.
        run: the run.
        slot: number of the slot it runs in.
        step: called with the title of each step, and while training with the numbers of fairseq's
            log.
    Raises:
        UserError: if the run was started with other settings, or no trial is left for it.
        ProgramFailed, Stopped: see ``Programs.run``.
    """
    completed = place.completed(run)
    if completed is None and not place.programs.dry:
        _give_up(place, run)
        return
    if completed is None:
        which = "best trial" if run.rank is None else f"trial of rank {run.rank}"
        print(f"# with the options of the {which}")
    run = completed or run
    place.check(run)
    if place.result(run.name) is None:
        Job(place, run, place.machine.environments[slot], step).carry_out()


def _give_up(place: Workplace, run: Run) -> None:
    """End a run for which no trial is left: a finalist as one that diverged.

    Raises:
        UserError: if it is a final run.
    """
    if run.rank is None:
        raise UserError(
            f"All trials of {run.system.name} diverged: give it lower learning rates, and "
            f"remove the folders {place.folder(run.system.folder_name)}.trial*."
        )
    _finish(place, run, place.collect_diverged(run))


def _finish(place: Workplace, run: Run, result: dict[str, Any]) -> None:
    """Write the result of a run, and remove its checkpoints unless they are kept."""
    folder = place.folder(run.name)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", result)
    if not place.keep_checkpoints:
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


@dataclass(frozen=True)
class Job:
    """A run that is carried out.

    Attributes:
        place: the folders of all runs.
        run: the run, with the options of its trial.
        environment: variables for its programs.
        step: see ``carry_out``.
    """

    place: Workplace
    run: Run
    environment: dict[str, str]
    step: Callable[..., None]

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.place.folder(self.run.name)

    def carry_out(self) -> None:
        """Do all that is missing."""
        place, run, dry = self.place, self.run, self.place.programs.dry
        if not dry:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "settings.json", run.settings)
        if run.trained_by is not None:
            self.take_model(run.trained_by)
        elif run.base is None:
            if not self.train():
                _finish(place, run, place.collect_diverged(run))
                return
            self.average()
        run = run.with_search(self.choose_search())
        for split in place.splits(run):
            self.step(f"translates {split}")
            output = self.translate(run, split, split)
            if not dry:
                self.write_texts(split, output.read_text(encoding="utf-8"))
        if not dry:
            _finish(place, run, place.collect(run))

    def take_model(self, trial: str) -> None:
        """Link the trained model of a trial into the folder of the run."""
        if not (self.folder / "average.pt").exists():
            (self.folder / "average.pt").hardlink_to(self.place.folder(trial) / "average.pt")

    def train(self) -> bool:
        """Train, or resume from the last checkpoint.

        Returns:
            False if the run is a trial that diverged.
        """
        log = self.folder / "train.log"
        if (self.folder / "average.pt").exists() or (
            log.exists() and logs.DONE in log.read_text(encoding="utf-8")
        ):
            return True
        self.step("starts to train")

        def watch(line: str) -> None:
            stats = logs.read_stats(line)
            if stats and stats.kind == "updates":
                self.step("trains", stats.values)

        earlier = log.stat().st_size if log.exists() else 0
        place = self.place
        try:
            place.programs.run(
                training_command(place.data, place.machine, self.run, self.folder / "checkpoints"),
                log,
                environment=self.environment,
                watch=watch,
                add_time=partial(add_time, self.folder / "times.json"),
            )
        except ProgramFailed:
            text = log.read_bytes()[earlier:].decode()
            if self.run.trial is None or not logs.diverged(text):
                raise
            return False
        return True

    def average(self) -> None:
        """Average the last checkpoint and those before it, or take the best one."""
        average = self.folder / "average.pt"
        if average.exists():
            return
        self.step("averages")
        averaging = self.run.system.average
        last = self.folder / "checkpoints" / "checkpoint_last.pt"
        if averaging.best:
            inputs = [last.with_name("checkpoint_best.pt")]
        elif self.place.programs.dry:
            inputs = [last.with_name("checkpoint<NUMBER>.pt")] * (averaging.checkpoints > 1)
            inputs.append(last)
        else:
            saved = logs.read_saved((self.folder / "train.log").read_text(encoding="utf-8"))
            inputs = last_checkpoints(last.parent, saved, averaging, self.run.updates)
        self.place.programs.run(
            ["convs2s", "average", "--inputs", *inputs, "--output", average],
            self.folder / "average.log",
            environment=self.environment,
        )

    def choose_search(self) -> Options:
        """Translate the validation set with all search options to choose from.

        Returns:
            The options that have the highest BLEU, of equal ones the first.
        """
        run, found = self.run, self.place.searches(self.run)
        if not run.searches or found:
            return best_search(found)
        outputs = []
        for number, options in enumerate(run.searches, start=1):
            self.step(f"tries search options {number} of {len(run.searches)}")
            searched = run.with_search(options)
            outputs.append(self.translate(searched, "valid", f"valid.{number}"))
        if self.place.programs.dry:
            print("# with the search options that are best on valid")
            return {}
        found = [
            {"options": options, "bleu": logs.read_bleu(output.read_text(encoding="utf-8"))}
            for options, output in zip(run.searches, outputs)
        ]
        best = best_search(found)
        shutil.copyfile(outputs[run.searches.index(best)], self.folder / "valid.out")
        write_json(self.folder / "searches.json", found)
        return best

    def translate(self, run: Run, split: str, name: str) -> Path:
        """Translate a split to a file in the folder of the run, unless the file is there."""
        output = self.folder / f"{name}.out"
        if not output.exists():
            translate(self.place, run, self.place.data.subsets[split], output, self.environment)
        return output

    def write_texts(self, split: str, output: str) -> None:
        """Write the translations of a split, and its references unless they are there."""
        references = self.place.out / "references" / split
        if not references.exists():
            references.parent.mkdir(exist_ok=True)
            write_lines(references, first_texts(output, "T"))
        count = len(read_lines(references))
        write_lines(self.folder / f"{split}.hyp", first_texts(output, "H", count))


def translate(
    place: Workplace, run: Run, subset: str, output: Path, environment: dict[str, str]
) -> None:
    """Translate a split.

    Args:
        place: the folders of all runs.
        run: the run whose model translates.
        subset: fairseq's name of the split.
        output: the file to write; the log is beside it.
        environment: variables for the program.
    """
    place.programs.run(
        translation_command(place.data, place.machine, run, place.model(run), subset),
        output.with_suffix(".log"),
        stdout=output,
        environment=environment,
    )


def last_checkpoints(
    folder: Path, saved: dict[str, int], averaging: Averaging, updates: int | None
) -> list[Path]:
    """The checkpoints to average, the last one at the end.

    Args:
        folder: the folder of the checkpoints.
        saved: names of saved checkpoints, each with its number of updates; they may be gone.
        averaging: the checkpoints to choose.
        updates: number of updates of the training, which may have ended before them; None if
            epochs end it.
    """
    total = max(saved.values())
    interval = averaging.interval(updates)
    # An interval may end with an epoch, whose checkpoint then takes the place of its own.
    pattern = r"checkpoint\d+\.pt" if interval is None else r"checkpoint(_\d+_)?\d+\.pt"
    # Two checkpoints of the same update are the same; the last one is among them.
    numbered = {
        number: name
        for name, number in saved.items()
        if re.fullmatch(pattern, name) and (folder / name).exists()
        if number < total and (interval is None or number % interval == 0)
    }
    names = [name for _, name in sorted(numbered.items())]
    count = averaging.checkpoints - 1
    before = names[max(0, len(names) - count) :]
    return [folder / name for name in (*before, "checkpoint_last.pt")]
