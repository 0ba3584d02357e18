"""Carry out one run: train, average, translate, score. Measure the speeds of finished runs."""

import os
import re
import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..checkpoints.folders import LAST, saved_checkpoints
from ..common import logs
from ..common.energy import EnergyMeter
from ..common.errors import UserError
from ..common.output_files import write_lines
from ..common.programs import ProgramFailed, relative_path
from ..common.text_files import read_sentences, read_text
from ..evaluation.nbest import first_texts
from ..text.binarize import count_sentences
from ..text.preparation import DATA, TEXT
from .choices import best_search
from .commands import (
    FIXES,
    Data,
    basic_training_command,
    launched,
    monolingual_command,
    training_command,
    training_text_command,
    translation_command,
    unless_set,
)
from .data import detokenizer
from .made_from import write_made_from
from .options import Options
from .records import as_json, read_json, write_json
from .results import Workplace, add_time
from .runs import Run
from .translated import back_translated_pairs, translated_pairs, write_training_data

# The speed of each system is measured this many times, in turn with the others.
ROUNDS = 3
# Updates of a measured training run, and between two lines of its log; the first line is a warm-up.
UPDATES, INTERVAL = 40, 10


@dataclass
class Job:
    """A run that is carried out.

    Attributes:
        place: the folders of all runs.
        run: the run; ``carry_out`` gives it the options of its trial.
        slot: number of the slot it runs in.
        step: called with the title of each step, and while training with the numbers of fairseq's
            log.
        held: the lock of the run, which its programs inherit; None in a dry run.
    """

    place: Workplace
    run: Run
    slot: int
    step: Callable[..., None]
    held: int | None = None

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.place.folder(self.run.name)

    @property
    def data(self) -> Data:
        """The binarized data."""
        return self.place.data[self.run.data_set]

    def start(self, command: Sequence[object], log: Path, workers: int = 1, **more: Any) -> None:
        """Run one of its programs to its end.

        Args:
            command: the program and its arguments.
            log: the file of its log.
            workers: number of its processes on this machine.
            more: as for ``Programs.run``.
        """
        environment = self.place.machine.environment(self.slot, workers)
        held = [] if self.held is None else [self.held]
        self.place.programs.run(command, log, environment=environment, keep_open=held, **more)

    def carry_out(self) -> None:
        """Do everything that is missing.

        Raises:
            UserError: if the run was started with other settings, or no trial is left for it.
            ProgramFailed, Stopped: see ``Programs.run``.
        """
        place, dry = self.place, self.place.programs.dry
        completed = place.completed(self.run)
        if completed is not None:
            self.run = completed
        elif dry:
            rank = self.run.rank
            which = "the best trial" if rank is None else f"the trial of rank {rank}"
            if self.run.is_adaptive:
                which = "a trial that is chosen from the results of others"
            print(f"# with the options of {which}")
        elif self.run.rank is None:
            folders = place.folder(self.run.name_of_trial(1)).parent
            raise UserError(
                f"All trials of {self.run.system.name} diverged: give it lower learning rates, and "
                f"remove the folders {folders / self.run.system.folder_name}.trial*."
            )
        else:
            self.finish(place.collect_diverged(self.run))
            return
        place.check(self.run)
        if place.result(self.run.name) is None and not self.make_result():
            return
        if self.run.translates_text:
            self.translate_training_text()
        if self.run.translates_monolingual:
            self.translate_monolingual_text()

    def make_result(self) -> bool:
        """Train, translate and score.

        Returns:
            False if the run is a trial that diverged.
        """
        place, dry = self.place, self.place.programs.dry
        if not dry:
            if place.settings(self.run.name) not in (None, as_json(self.run.settings)):
                # It failed before it trained, and its options have been corrected.
                shutil.rmtree(self.folder)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(self.folder / "settings.json", self.run.settings)
            write_made_from(place, self.run)
        if not self.run.models and not self.make_model():
            self.finish(place.collect_diverged(self.run))
            return False
        self.run = self.run.with_search(self.choose_search())
        for split in place.splits(self.run):
            self.step(f"translates {split}")
            output = self.translate(self.run, split, split)
            if not dry:
                self.write_texts(split, read_text(str(output)))
        if not dry:
            self.finish(place.collect(self.run))
        return True

    def translate_training_text(self) -> None:
        """Translate the training text."""
        place, output = self.place, self.place.translated(self.run.name)
        models = self.models_for("the training text")
        run = self.run.with_search(best_search(place.searches(self.run), place.metric))
        command = training_text_command(self.data, place.machine, run, models)
        # train.log is that of the training run.
        self.start(command, self.folder / "training_text.log", stdout=output)

    def translate_monolingual_text(self) -> None:
        """Translate the monolingual text, or continue with it."""
        place, output = self.place, self.place.back_translated(self.run.name)
        models = self.models_for("the monolingual text")
        command = monolingual_command(self.data, place.machine, self.run, models, output)
        self.start(command, output.with_suffix(".log"))

    def models_for(self, text: str) -> list[Path]:
        """The models that translate a text for other systems.

        Raises:
            UserError: if one is missing.
        """
        models = self.place.models(self.run)
        for model in models:
            if not (model.exists() or self.place.programs.dry):
                raise UserError(
                    f"{model} is missing, which must translate {text} for other systems: remove "
                    f"{model.parent} to train it again."
                )
        self.step(f"translates {text}")
        return models

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result, and remove the checkpoints unless they are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / "result.json", result)
        if not self.place.keep_checkpoints:
            for name in ("checkpoints", DATA):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def make_model(self) -> bool:
        """Train, resume, or link the model of a trial, unless the model exists.

        Returns:
            False if the run is a trial that diverged.
        """
        model, log = self.folder / "average.pt", self.folder / "train.log"
        if model.exists():
            return True
        if self.run.trained_by is not None:
            if not self.place.programs.dry:
                model.hardlink_to(self.place.folder(self.run.trained_by) / model.name)
            return True
        if logs.DONE not in logs.read_log(log):
            try:
                self.train(log)
            except ProgramFailed as error:
                if self.run.trial is None or not logs.diverged(error.output):
                    raise
                return False
        self.average(model)
        return True

    def train(self, log: Path) -> None:
        """Train, or resume from the last checkpoint."""
        data = self.make_data() if self.run.teachers else self.data
        self.step("starts training")

        def watch(line: str) -> None:
            stats = logs.read_stats(line)
            if stats and stats.kind == "updates":
                self.step("trains", stats.values)

        checkpoints = self.folder / "checkpoints"
        command = training_command(data, self.place.machine, self.run, checkpoints)
        self.start(
            launched(command, self.run, self.place.programs.dry),
            log,
            self.run.system.gpus,
            watch=watch,
            add_time=partial(add_time, self.folder / "times.json", EnergyMeter()),
        )

    def make_data(self) -> Data:
        """The data of a system that trains on the translations of others."""
        folder = self.folder / DATA
        if self.place.programs.dry:
            print(f"# makes {relative_path(folder)} of {', '.join(self.run.teachers)}")
        else:
            self.step("makes its data")
            train_on = self.run.system.train_on
            pairs = [
                translated_pairs(self.place.translated(name), *self.data.languages(reverse))
                for name, reverse in self.run.translations.items()
            ]
            pairs += [
                back_translated_pairs(self.place.back_translated(name), self.data, train_on.tag)
                for name in self.run.back_translations
            ]
            write_training_data(folder, self.data, pairs, train_on.text)
        return replace(self.data, bin=folder)

    def average(self, model: Path) -> None:
        """Average the last checkpoint and those before it, or take the best one."""
        self.step("averages")
        averaging = self.run.system.average
        last = self.folder / "checkpoints" / LAST
        if averaging.best:
            inputs = [last.with_name("checkpoint_best.pt")]
        elif self.place.programs.dry:
            inputs = [last.with_name("checkpoint<NUMBER>.pt")] * (averaging.checkpoints > 1)
            inputs.append(last)
        else:
            inputs = last_checkpoints(last.parent, self.run)
        command = ["convs2s", "average", "--inputs", *inputs, "--output", model]
        self.start(command, self.folder / "average.log")

    def choose_search(self) -> Options:
        """Translate the validation set with all search options to choose from.

        Returns:
            The options that have the best score, the first ones in a tie.
        """
        run, found, metric = self.run, self.place.searches(self.run), self.place.metric
        if not run.searches or found:
            return best_search(found, metric)
        outputs = []
        for number, options in enumerate(run.searches, start=1):
            self.step(f"tries search options {number} of {len(run.searches)}")
            searched = run.with_search(options)
            outputs.append(self.translate(searched, "valid", f"valid.{number}"))
        if self.place.programs.dry:
            print("# with the search options that are best on valid")
            return {}
        found = [
            {"options": options, metric: self.score(read_text(str(output)))}
            for options, output in zip(run.searches, outputs)
        ]
        best = best_search(found, metric)
        shutil.copyfile(outputs[run.searches.index(best)], self.folder / "valid.out")
        write_json(self.folder / "searches.json", found)
        return best

    def score(self, output: str) -> float:
        """The score of translations of the validation set, given as fairseq-generate's output."""
        if self.place.metric == "bleu":
            return logs.read_bleu(output)
        # Its packages would delay a dry run.
        from ..evaluation.scores import error_rates

        references = self.write_references("valid", output)
        return error_rates(self.hypotheses("valid", output, references), references)["wer"]

    def translate(self, run: Run, split: str, name: str) -> Path:
        """Translate a split to a file in the folder of the run, unless the file is there."""
        output = self.folder / f"{name}.out"
        if not output.exists():
            command = translation_of(self.place, run, self.data.subsets[split])
            self.start(command, output.with_suffix(".log"), stdout=output)
        return output

    def write_texts(self, split: str, output: str) -> None:
        """Write the translations of a split, and its references unless they are there."""
        references = self.write_references(split, output)
        hypotheses = self.hypotheses(split, output, references)
        write_lines(str(self.folder / f"{split}.hyp"), hypotheses)

    def write_references(self, split: str, output: str) -> list[str]:
        """The references of a split, written to their file unless they are there."""
        path, data = self.place.references(self.run, split), self.data
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            lines: Iterable[str] = map(detokenizer(None), first_texts(output, "T"))
            if data.prepared is not None:
                lines = read_sentences(str(data.prepared / TEXT / f"{split}.{data.target}"))
            with self.place.lock("references", "The folder of the references", wait=True):
                write_lines(str(path), lines)
        references = [*read_sentences(str(path))]
        count = len(references)
        binarized = count_sentences(data.bin / f"{data.subsets[split]}.{data.pair}.{data.target}")
        if binarized not in (None, count):
            raise UserError(
                f"{path} has {count:,} lines, but {split} has {binarized:,} sentences in "
                f"{data.bin}: the references belong to other data. Remove {path.parent}, or "
                "prepare the data again."
            )
        return references

    def hypotheses(self, split: str, output: str, references: Sequence[str]) -> list[str]:
        """The text of the translations, in the order of the references."""
        decode = detokenizer(self.data.prepared)
        return [decode(text) for text in first_texts(output, "H", len(references))]


def translation_of(place: Workplace, run: Run, subset: str) -> list[object]:
    """The command that translates a split, given by fairseq's name, with the model of a run."""
    data, models = place.data[run.data_set], place.models(run)
    return translation_command(data, place.machine, run, models, subset)


def last_checkpoints(folder: Path, run: Run) -> list[Path]:
    """The checkpoints to average, the last one at the end.

    The files say after how many updates they were saved: the log of a training run that was killed
    may lack what it had to say about its last ones. The run may have ended before all its updates.

    Args:
        folder: the folder of the checkpoints.
        run: the training run.
    Raises:
        UserError: if a checkpoint of an interval is missing, or the last one cannot be read.
    """
    averaging, saved = run.system.average, saved_checkpoints(folder)
    if LAST not in saved:
        raise UserError(
            f"{folder / LAST} is damaged, or no training run can continue from it: remove "
            f"{folder.parent} to train the run again."
        )
    total = saved.pop(LAST)
    interval, count = averaging.interval(run.updates), averaging.checkpoints - 1
    # An interval may end with an epoch: earlier versions saved only the checkpoint of the epoch.
    pattern = r"checkpoint\d+\.pt" if interval is None else r"checkpoint(_\d+_)?\d+\.pt"
    # Two checkpoints of the same update are the same; the last one is among them.
    numbered = {
        number: name
        for name, number in saved.items()
        if re.fullmatch(pattern, name) and number < total
    }
    numbers = sorted(numbered)
    if interval is not None:
        # Before this number of updates, fairseq saves none.
        first = max(1, int(run.train.get("validate-after-updates") or 0))
        numbers = [number for number in range(interval, total, interval) if number >= first]
    numbers = numbers[max(0, len(numbers) - count) :]
    missing = [f"{number:,}" for number in numbers if number not in numbered]
    if missing:
        # Without its fixes, fairseq saves no checkpoint of an interval that ends with an epoch.
        is_fixed = FIXES.items() <= (os.environ | unless_set(FIXES)).items()
        fixed = "" if is_fixed else " with CONVS2S_COMPAT=all"
        raise UserError(
            f"{folder} has no checkpoint after {' and '.join(missing)} updates, which is part of "
            f"the average of {run.system.place} ({averaging.checkpoints} checkpoints, one every "
            f"{interval:,} updates): remove {folder.parent} to train the run again{fixed}."
        )
    return [folder / name for name in (*(numbered[number] for number in numbers), LAST)]


def measure_speeds(place: Workplace, runs: Sequence[Run], say: Callable[[str], None]) -> None:
    """Measure translation of the first test set and the start of training: ``speed.json``.

    Systems that are not measured keep the speeds in the file.

    Args:
        place: the folders of all runs; its machine is that of one program that runs alone.
        runs: a finished run of each system, on one data set; one that uses the models of others is
            not trained.
        say: prints a line.
    """
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    if not place.programs.dry:
        shutil.rmtree(place.out / "speed", ignore_errors=True)
    for number in range(1, ROUNDS + 1):
        for run in runs:
            say(f"Speed of {run.system.name}, round {number} of {ROUNDS}")
            folder = place.out / "speed" / f"{run.system.folder_name}.{number}"
            for unit, speed in _speeds(place, run, folder):
                if speed is not None:
                    measured[run.system.name, unit].append(speed)
    if place.programs.dry:
        return
    path = place.out / "speed.json"
    speeds = (read_json(path) or {}) | {run.system.name: {} for run in runs}
    for (system, unit), values in measured.items():
        median = statistics.median(values)
        speeds[system][unit] = {"median": median, "min": min(values), "max": max(values)}
    write_json(path, speeds)


def _speeds(place: Workplace, run: Run, folder: Path) -> Iterator[tuple[str, float | None]]:
    """The speeds of one measurement, whose files are in ``folder``; none in a dry run."""
    dry, environment = place.programs.dry, place.machine.environment(0)
    if not dry:
        folder.mkdir(parents=True)
    output, log = folder / "test.out", folder / "train.log"
    data = place.data[run.data_set]
    command = translation_of(place, run, data.tests[data.first_test])
    place.programs.run(command, output.with_suffix(".log"), stdout=output, environment=environment)
    if not dry:
        yield "sentences_per_second", logs.sentences_per_second(output)
    if not run.models:
        runs = place.out / "runs"
        command = basic_training_command(data, place.machine, run, runs, INTERVAL)
        command += ["--max-update", UPDATES, "--no-save", "--disable-validation"]
        environment = place.machine.environment(0, run.system.gpus)
        place.programs.run(launched(command, run, dry), log, environment=environment)
        if not dry:
            speeds = logs.training_speeds(logs.read_log(log))[1:]
            yield "tokens_per_second", statistics.median(speeds) if speeds else None
