"""The results of a run: what its folder holds when it is done."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation import scores
from . import logs
from .data import Data
from .files import TrainingTimes, read_json, read_lines, write_json
from .machine import Machine
from .parameters import vocabulary_parameters
from .runs import Run

# The results of a training, which do not depend on the translations.
TRAINING = (
    *("updates", "parameters", "parameters_without_embeddings", "train_minutes", "cpu_minutes"),
    *("tokens_per_second", "valid_loss"),
)


@dataclass(frozen=True)
class Results:
    """The folders of runs and the results in them.

    Attributes:
        out: the folder OUT.
        data: the binarized data.
        machine: the devices.
    """

    out: Path
    data: Data
    machine: Machine

    def folder(self, name: str) -> Path:
        """The folder of a run."""
        return self.out / "runs" / name

    def result(self, name: str) -> dict[str, Any] | None:
        """The result of a run; None if it is not finished."""
        return read_json(self.folder(name) / "result.json")

    def splits(self, run: Run) -> dict[str, str]:
        """The splits that a run translates: a trial must not see the test sets."""
        return {"valid": "valid"} if run.trial is not None else self.data.subsets

    def searches(self, run: Run) -> list[dict[str, Any]]:
        """The search options that a run has tried, each with its BLEU on the validation set."""
        return read_json(self.folder(run.name) / "searches.json") or []

    def collect(self, run: Run) -> dict[str, Any]:
        """The result of a run whose translations are written."""
        return {
            "system": run.system.name,
            "title": run.system.title,
            "seed": run.seed,
            "trial": run.trial,
            **self.training_results(run),
            "options": run.settings.get("train", {}),
            "trial_options": run.tried,
            "generate": {**run.settings["generate"], **run.search},
            "searches": self.searches(run),
            "device": self.machine.device,
            "sentences_per_second": self.sentences_per_second(run),
            "splits": {split: self.scores(run, split) for split in self.splits(run)},
        }

    def collect_diverged(self, run: Run) -> dict[str, Any]:
        """The result of a trial that diverged, or of a finalist for which no trial is left."""
        path = self.folder(run.name) / "train.log"
        log = path.read_text(encoding="utf-8") if path.exists() else ""
        return {
            "system": run.system.name,
            "title": run.system.title,
            "seed": run.seed,
            "trial": run.trial,
            "diverged": True,
            "updates": logs.read_training_log(log).updates,
            "options": run.settings.get("train", {}),
            "trial_options": run.tried,
            "device": self.machine.device,
            "splits": {},
        }

    def collect_training(self, run: Run) -> dict[str, Any]:
        """The results of a training, which its folder keeps when the checkpoints are removed."""
        folder = self.folder(run.name)
        kept = read_json(folder / "training.json")
        if kept is not None:
            return kept
        log = logs.read_training_log((folder / "train.log").read_text(encoding="utf-8"))
        last = folder / "checkpoints" / "checkpoint_last.pt"
        times = TrainingTimes(folder / "times.json").read()
        results = {
            "updates": log.updates or run.updates,
            "parameters": log.parameters,
            "parameters_without_embeddings": (log.parameters or 0) - vocabulary_parameters(last),
            "train_minutes": times["wall"] / 60,
            "cpu_minutes": times["cpu"] / 60,
            "tokens_per_second": log.tokens_per_second,
            "valid_loss": log.valid_loss,
        }
        write_json(folder / "training.json", results)
        return results

    def sentences_per_second(self, run: Run) -> float | None:
        """The speed of translating the first test set, or valid if the run is a trial."""
        split = "valid" if run.trial is not None else self.data.first_test
        files = [self.folder(run.name) / f"{split}.{end}" for end in ("log", "out")]
        return logs.read_sentences_per_second("".join(file.read_text("utf-8") for file in files))

    def training_results(self, run: Run) -> dict[str, Any]:
        """The results of the training of this run, or of that whose model it uses."""
        other = run.base or run.trained_by
        if other is None:
            return self.collect_training(run)
        result = self.result(other)
        assert result is not None
        reuse = {"runs_of": run.system.runs_of} if run.base is not None else {}
        return {**{name: result[name] for name in TRAINING}, **reuse}

    def scores(self, run: Run, split: str) -> dict[str, Any]:
        """The scores of the translations of a split."""
        folder = self.folder(run.name)
        output = (folder / f"{split}.out").read_text(encoding="utf-8")
        hypotheses = read_lines(folder / f"{split}.hyp")
        references = read_lines(self.out / "references" / split)
        return {"bleu": logs.read_bleu(output), **scores.score(hypotheses, references)}
