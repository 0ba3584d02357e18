"""Carry out one run: train, average, translate, score."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.programs import ProgramFailed, Programs
from ..evaluation.nbest import first_texts
from . import logs
from .commands import training_command, translation_command
from .file import Averaging
from .results import Results, add_time, read_json, read_lines, write_json, write_lines
from .runs import Run, best_search, changed_settings, has_options, ranked_trials


@dataclass(frozen=True)
class Workplace(Results):
    """Carries out the runs of an experiment.

    Attributes:
        out, data, machine: see ``Results``.
        programs: starts programs.
        keep_checkpoints: keep all checkpoints of finished trainings.
    """

    programs: Programs
    keep_checkpoints: bool = False

    def check(self, run: Run) -> None:
        """Refuse a run that was started with other settings.

        Raises:
            UserError: naming the run, the option and both values.
        """
        earlier = read_json(self.folder(run.name) / "settings.json")
        if earlier is not None:
            now = json.loads(json.dumps(run.settings))
            for place, before, after in changed_settings(earlier, now):
                raise UserError(
                    f"The run {run.name} was made with {place} {before}, but now it is {after}: "
                    f"choose another folder with --out, or remove {self.folder(run.name)}."
                )

    def is_stale(self, run: Run) -> bool:
        """A run with the options of the best trial was started when another one was the best."""
        earlier = read_json(self.folder(run.name) / "settings.json")
        if run.trial is not None or earlier is None:
            return False
        names = {name for options in run.system.trials for name in options}
        now = {name: run.train.get(name) for name in names}
        return not has_options(earlier.get("train", {}), now)

    def completed(self, run: Run) -> Run | None:
        """The run with the options of the best trial, if it waits for trials.

        A finalist gets the options of the trial with its rank.

        Returns:
            None if a trial is not finished, or none is left that did not diverge.
        """
        if not run.awaits or run.base is not None:
            return run
        results = [self.result(name) for name in run.awaits]
        finished = [result for result in results if result is not None]
        if len(finished) < len(results):
            return None
        ranked = ranked_trials(finished, len(run.system.trials))
        rank = 1 if run.rank is None else run.rank
        if rank > len(ranked):
            return None
        trial = ranked[rank - 1]
        options = trial["trial_options"]
        if run.rank is not None:
            return replace(run.with_options(options), tried=options)
        run = run.with_options(options)
        name = f"{run.system.folder_name}.trial{trial['trial']}"
        settings = json.loads(json.dumps(run.training_settings))
        same = settings.items() <= (read_json(self.folder(name) / "settings.json") or {}).items()
        return replace(run, trained_by=name) if same else run

    def carry_out(self, run: Run, slot: int, step: Callable[..., None]) -> None:
        """Do all that is missing of a run.

        Args:
            run: the run.
            slot: number of the slot it runs in.
            step: called with the title of each step, and while training with the numbers of
                fairseq's log.
        Raises:
            UserError: if the run was started with other settings.
            ProgramFailed, Stopped: see ``Programs.run``.
        """
        completed = self.completed(run)
        folder = self.folder(run.name)
        if completed is None:
            if not self.programs.dry:
                return self.give_up(run)
            which = "best trial" if run.rank is None else f"trial of rank {run.rank}"
            print(f"# with the options of the {which}")
        run = completed or run
        self.check(run)
        if self.result(run.name) is not None:
            return
        if not self.programs.dry:
            folder.mkdir(parents=True, exist_ok=True)
            write_json(folder / "settings.json", run.settings)
        if run.trained_by is not None:
            self.take_model(run.trained_by, folder)
        elif run.base is None:
            if not self.train(run, slot, step):
                return self.finish(run, self.collect_diverged(run))
            self.average(run, slot, step)
        run = self.choose_search(run, slot, step)
        for split in self.splits(run):
            step(f"translates {split}")
            self.translate(run, split, slot)
        if not self.programs.dry:
            self.finish(run, self.collect(run))

    def give_up(self, run: Run) -> None:
        """End a run for which no trial is left: a finalist as one that diverged.

        Raises:
            UserError: if it is a final run.
        """
        if run.rank is None:
            raise UserError(
                f"All trials of {run.system.name} diverged: give it lower learning rates, and "
                f"remove the folders {self.folder(run.system.folder_name)}.trial*."
            )
        self.finish(run, self.collect_diverged(run))

    def finish(self, run: Run, result: dict[str, Any]) -> None:
        """Write the result of a run, and remove its checkpoints unless they are kept."""
        folder = self.folder(run.name)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "result.json", result)
        if not self.keep_checkpoints:
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)

    def take_model(self, trial: str, folder: Path) -> None:
        """Link the trained model of a trial into the folder of a run."""
        if not (folder / "average.pt").exists():
            (folder / "average.pt").hardlink_to(self.folder(trial) / "average.pt")

    def train(self, run: Run, slot: int, step: Callable[..., None]) -> bool:
        """Train, or resume from the last checkpoint.

        Returns:
            False if the run is a trial that diverged.
        """
        folder = self.folder(run.name)
        log = folder / "train.log"
        if (folder / "average.pt").exists() or (log.exists() and logs.DONE in log.read_text()):
            return True
        step("starts to train")

        def watch(line: str) -> None:
            stats = logs.read_stats(line)
            if stats and stats.kind == "updates":
                step("trains", stats.values)

        command = training_command(self.data, self.machine, run, folder / "checkpoints")
        earlier = log.stat().st_size if log.exists() else 0
        try:
            self.programs.run(
                command,
                log,
                environment=self.environment(slot),
                watch=watch,
                add_time=partial(add_time, folder / "times.json"),
            )
        except ProgramFailed:
            text = log.read_bytes()[earlier:].decode()
            if run.trial is None or not logs.diverged(text):
                raise
            return False
        return True

    def average(self, run: Run, slot: int, step: Callable[..., None]) -> None:
        """Average the last checkpoint and those before it, or take the best one."""
        folder = self.folder(run.name)
        average = folder / "average.pt"
        if average.exists():
            return
        step("averages")
        last = folder / "checkpoints" / "checkpoint_last.pt"
        if run.system.average.best:
            inputs = [last.with_name("checkpoint_best.pt")]
        elif self.programs.dry:
            several = run.system.average.checkpoints > 1
            inputs = [last.with_name("checkpoint<NUMBER>.pt")] * several + [last]
        else:
            saved = logs.read_saved((folder / "train.log").read_text(encoding="utf-8"))
            inputs = last_checkpoints(last.parent, saved, run.system.average, run.updates)
        command = ["convs2s", "average", "--inputs", *inputs, "--output", average]
        self.programs.run(command, folder / "average.log", environment=self.environment(slot))

    def choose_search(self, run: Run, slot: int, step: Callable[..., None]) -> Run:
        """Translate the validation set with all search options to choose from.

        Returns:
            The run with the options that have the highest BLEU, of equal ones the first.
        """
        found = self.searches(run)
        if run.searches and not found:
            for number, options in enumerate(run.searches, start=1):
                step(f"tries search options {number} of {len(run.searches)}")
                output = self.search(run.with_search(options), "valid", f"valid.{number}", slot)
                if not self.programs.dry:
                    bleu = logs.read_bleu(output.read_text(encoding="utf-8"))
                    found.append({"options": options, "bleu": bleu})
            if self.programs.dry:
                print("# with the search options that are best on valid")
                return run
            folder = self.folder(run.name)
            best = [each["options"] for each in found].index(best_search(found)) + 1
            shutil.copyfile(folder / f"valid.{best}.out", folder / "valid.out")
            write_json(folder / "searches.json", found)
        return run.with_search(best_search(found))

    def search(self, run: Run, split: str, name: str, slot: int) -> Path:
        """Translate a split to a file in the folder of the run, unless the file is there."""
        output = self.folder(run.name) / f"{name}.out"
        if not output.exists():
            checkpoint = self.folder(run.base or run.name) / "average.pt"
            self.programs.run(
                translation_command(
                    self.data, self.machine, run, checkpoint, self.data.subsets[split]
                ),
                output.with_suffix(".log"),
                stdout=output,
                environment=self.environment(slot),
            )
        return output

    def translate(self, run: Run, split: str, slot: int) -> None:
        """Translate a split, and write its references unless they are there."""
        folder = self.folder(run.name)
        output = self.search(run, split, split, slot)
        if self.programs.dry:
            return
        text = output.read_text(encoding="utf-8")
        references = self.out / "references" / split
        if not references.exists():
            references.parent.mkdir(exist_ok=True)
            write_lines(references, first_texts(text, "T"))
        count = len(read_lines(references))
        write_lines(folder / f"{split}.hyp", first_texts(text, "H", count))

    def environment(self, slot: int) -> dict[str, str]:
        return self.machine.environments[slot]


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
    before = names[len(names) - min(count, len(names)) :]
    return [folder / name for name in (*before, "checkpoint_last.pt")]
