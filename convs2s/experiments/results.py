"""The folders of runs: what they hold, and the results in them."""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ..common import logs
from ..common.energy import EnergyMeter
from ..common.errors import UserError
from ..common.locks import shared_lock
from ..common.names import check_name
from ..common.output_files import write_lines
from ..common.programs import Programs
from ..common.resuming import check_unchanged
from ..common.text_files import read_sentences, read_text
from ..evaluation.nbest import first_texts
from ..text.preparation import TEXT
from .choices import has_options, means_over_sets, ranked_trials
from .commands import Data, Machine
from .data import detokenizer
from .made_from import check_made_from
from .options import Options
from .records import as_json, read_json, write_json
from .runs import Run
from .values import Metric

# The results of a training run, which do not depend on the translations.
TRAINING = (
    "updates",
    "parameters",
    "parameters_without_embeddings",
    "train_minutes",
    "cpu_minutes",
    "tokens_per_second",
    "valid_loss",
)
# Embedding matrices of tokens, and weights and biases of output layers, here and in fairseq.
VOCABULARY = re.compile(
    r"(embed\.words|embed_tokens|embed_tokens\.\d+\.\d+)\.weight$"
    r"|(^|\.)decoder\.(output\.words|output|output_projection|fc_out|fc3|embed_out)"
    r"(\.(weight|weight_g|weight_v|bias))?$"
)
NO_TIME = {"wall": 0.0, "cpu": 0.0}
# The file of a run with the reason why it failed.
FAILURE = "failed.txt"


@dataclass(frozen=True)
class Workplace:
    """What the runs of an experiment share, and the folders of the runs.

    Attributes:
        out: the folder OUT.
        data: the binarized data of each data set; "" is the name of the only one.
        machine: the devices.
        programs: starts programs.
        metric: the score that chooses among trials and searches.
        keep_checkpoints: whether to keep all checkpoints of finished training runs.
        comet: the model of COMET that also scores final runs; None for none.
    """

    out: Path
    data: dict[str, Data]
    machine: Machine
    programs: Programs
    metric: Metric = "bleu"
    keep_checkpoints: bool = False
    comet: str | None = None

    def folder(self, name: str) -> Path:
        """The folder of a run."""
        return self.out / "runs" / name

    def lock(self, name: str, what: str, wait: bool = False) -> AbstractContextManager[int]:
        """Keep other processes, on any machine, away from a part of the folder OUT.

        Args:
            name: the part, such as "report".
            what, wait: as for ``shared_lock``.
        """
        return shared_lock(str(self.out / "locks" / name), what, wait, self.programs.stop)

    def lock_of(self, run: Run) -> AbstractContextManager[int]:
        """Keep other processes away from a run."""
        return self.lock(f"runs/{run.name}", f"The run {run.name}")

    def was_locked(self, run: Run) -> bool:
        """Whether a run has been locked at any time."""
        return (self.out / "locks" / "runs" / run.name).exists()

    def failure(self, name: str) -> str | None:
        """Why a run has failed; None if it has not, or has been started again."""
        path = self.folder(name) / FAILURE
        return read_text(str(path)).rstrip("\n") if path.exists() else None

    def note_failure(self, name: str, text: str) -> None:
        """Record why a run has failed."""
        self.folder(name).mkdir(parents=True, exist_ok=True)
        write_lines(str(self.folder(name) / FAILURE), [text])

    def forget_failure(self, name: str) -> None:
        """Note that a run is started again."""
        (self.folder(name) / FAILURE).unlink(missing_ok=True)

    def models(self, run: Run) -> list[Path]:
        """The models that a run translates with: its own, or those of the runs that it uses."""
        return [self.folder(name) / "average.pt" for name in run.models or [run.name]]

    def references(self, run: Run, split: str) -> Path:
        """The file with the references of a split."""
        return self.out / "references" / run.data_set / split

    def result(self, name: str) -> dict[str, Any] | None:
        """The result of a run; None if it is not finished."""
        return read_result(self.folder(name) / "result.json", self.metric)

    def splits(self, run: Run) -> dict[str, str]:
        """The splits that a run translates and that are scored.

        A trial must not see the test sets; translations to the source language have no scores.
        """
        if run.system.reverse:
            return {}
        subsets = self.data[run.data_set].subsets
        return {"valid": "valid"} if run.trial is not None else subsets

    def translated(self, name: str) -> Path:
        """The file with the translations of the training text by a run."""
        return self.folder(name) / "train.out"

    def back_translated(self, name: str) -> Path:
        """The file with the translations of the monolingual text by a run."""
        return self.folder(name) / "monolingual"

    def is_done(self, run: Run) -> bool:
        """Whether a run has its result, and the translations that others train on."""
        needed = [self.translated(run.name)] * run.translates_text
        needed += [self.back_translated(run.name)] * run.translates_monolingual
        return all(path.exists() for path in needed) and self.result(run.name) is not None

    def searches(self, run: Run) -> list[dict[str, Any]]:
        """The search options that a run has tried, each with its score on the validation set.

        Raises:
            UserError: if they are not those of the experiment.
        """
        path = self.folder(run.name) / "searches.json"
        found = read_json(path, list) or []
        if found and [_part(each, "options") for each in found] != as_json(run.searches):
            raise UserError(f"{path} has other search options than the experiment: remove it.")
        if not all(isinstance(_part(each, self.metric), int | float) for each in found):
            raise UserError(f"{path} has no {self.metric} of its search options: remove it.")
        return found

    def settings(self, name: str) -> dict[str, Any] | None:
        """The settings with which a run was started; None if it was not."""
        return read_json(self.folder(name) / "settings.json")

    def has_trained(self, run: Run) -> bool:
        """Whether a run has written a checkpoint or a translation, which belong to its settings."""
        patterns = ("checkpoints/checkpoint*.pt", "*.pt", "*.out", "result.json")
        return any(path for each in patterns for path in self.folder(run.name).glob(each))

    def check(self, run: Run) -> None:
        """Refuse a run that has trained with other settings, or was made from runs that had some.

        Raises:
            UserError: naming the run, the option and both values.
        """
        earlier, made = self.settings(run.name), f"The run {run.name} was made with "
        advice = f"choose another folder with --out, or remove {self.folder(run.name)}"
        if earlier is not None and self.has_trained(run):
            check_unchanged(earlier, as_json(run.settings), made, advice)
            check_made_from(self, run, advice)

    def is_stale(self, run: Run) -> bool:
        """Whether a run that takes the best trial's options started when another trial was best."""
        earlier = self.settings(run.name)
        if run.trial is not None or earlier is None:
            return False
        names = {name for options in run.system.trials for name in options}
        now = {name: run.train.get(name) for name in names}
        other = earlier.get("updates") != run.updates and "updates" in names
        return other or not has_options(earlier.get("train", {}), now)

    def completed(self, run: Run) -> Run | None:
        """The run with the options of the best trial, if it waits for trials.

        A trial of a later round gets the options of the trial with its rank, and an adaptive one
        those that are chosen for it.

        Returns:
            None if a trial is not finished, or none is left that did not diverge.
        """
        if not run.awaits or run.models:
            return run
        results = [self.result(name) for name in run.awaits]
        finished = [result for result in results if result is not None]
        if len(finished) < len(results):
            return None
        ranked = ranked_trials(finished, self.metric, data_sets(run.awaits))
        if run.is_adaptive:
            options = self._chosen_options(run, finished, ranked)
            return replace(run, tried=options).with_options(options)
        place = 0 if run.rank is None else run.rank - 1
        if place >= len(ranked):
            return None
        trial = ranked[place]
        run = replace(run, tried=self._trial_options(run, trial))
        run = run.with_options(run.tried)
        if run.rank is not None:
            return run
        name = run.name_of_trial(trial["trial"])
        if name not in run.awaits:
            return run
        training = as_json(run.training_settings)
        same = training.items() <= (self.settings(name) or {}).items()
        return replace(run, trained_by=name) if same else run

    def _chosen_options(
        self, run: Run, finished: list[dict[str, Any]], ranked: list[dict[str, Any]]
    ) -> Options:
        """The options of an adaptive trial: those of its result, or otherwise what is chosen now.

        Args:
            run: the trial.
            finished: the results that it is chosen from.
            ranked: their means over the data sets, best first, without trials that diverged.
        """
        own, adaptive = self.result(run.name), run.system.adaptive
        if own is not None:
            return self._trial_options(run, own)
        assert adaptive is not None and run.trial is not None
        means = means_over_sets(finished, data_sets(run.awaits))
        return adaptive.choose(run.trial, ranked, [each for each in means if each.get("diverged")])

    def _trial_options(self, run: Run, trial: dict[str, Any]) -> Options:
        """The options of a trial, as the experiment has them.

        Raises:
            UserError: if the experiment has no such trial.
        """
        for options in run.system.trials:
            if as_json(options) == trial.get("trial_options"):
                return options
        adaptive, found = run.system.adaptive, trial.get("trial_options", {})
        if adaptive is not None and adaptive.space.has(found):
            return found
        name = run.name_of_trial(trial["trial"])
        raise UserError(
            f"{self.folder(name) / 'result.json'} has options of which {run.system.place} has no "
            "trial: remove the folder of that run."
        )

    def collect(self, run: Run) -> dict[str, Any]:
        """The result of a run whose translations are written."""
        splits = self.splits(run)
        first = "valid" if run.trial is not None else self.data[run.data_set].first_test
        output = self.folder(run.name) / f"{first}.out"
        return {
            **_identity(run),
            **self._training_results(run),
            "options": run.settings.get("train", {}),
            "trial_options": run.tried,
            "generate": {**run.settings["generate"], **run.search},
            "searches": self.searches(run),
            "device": self.machine.device,
            "sentences_per_second": logs.sentences_per_second(output) if splits else None,
            "splits": {split: self._scores(run, split) for split in splits},
        }

    def collect_diverged(self, run: Run) -> dict[str, Any]:
        """The result of a trial that diverged, or for which the round before left no other."""
        log = logs.read_log(self.folder(run.name) / "train.log")
        return {
            **_identity(run),
            "diverged": True,
            "updates": logs.read_training_log(log).updates,
            "options": run.settings.get("train", {}),
            "trial_options": run.tried,
            "device": self.machine.device,
            "splits": {},
        }

    def _training_results(self, run: Run) -> dict[str, Any]:
        """The results of this run's training, or of the runs whose models it uses."""
        others = run.models or ((run.trained_by,) if run.trained_by is not None else ())
        if not others:
            return _collect_training(self.folder(run.name), run.updates)
        results = [result for name in others if (result := self.result(name)) is not None]
        reuse = {} if run.system.runs_of is None else {"runs_of": run.system.runs_of}
        training = {name: _sum([result[name] for result in results]) for name in TRAINING}
        if len(others) > 1:
            training |= {"tokens_per_second": None, "valid_loss": None}
        return {**training, **reuse}

    def _scores(self, run: Run, split: str) -> dict[str, Any]:
        """The scores of the translations of a split."""
        from ..evaluation import scores

        folder = self.folder(run.name)
        output = read_text(str(folder / f"{split}.out"))
        hypotheses = [*read_sentences(str(folder / f"{split}.hyp"))]
        references = [*read_sentences(str(self.references(run, split)))]
        found = {"bleu": logs.read_bleu(output), **scores.score(hypotheses, references)}
        if self.metric == "wer":
            found |= scores.error_rates(hypotheses, references)
        if self.comet is not None and run.trial is None:
            source = self._source(run, split, output, len(references))
            found |= scores.comet_score(self.comet, source, hypotheses, references)
        return found

    def _source(self, run: Run, split: str, output: str, count: int) -> list[str]:
        """The source text of a split, prepared or as it is in the output of fairseq-generate."""
        data = self.data[run.data_set]
        if data.prepared is None:
            return [*map(detokenizer(None), first_texts(output, "S", count))]
        return [*read_sentences(str(data.prepared / TEXT / f"{split}.{data.source}"))]


def _identity(run: Run) -> dict[str, Any]:
    return {
        "system": run.system.name,
        "title": run.system.title,
        **({"data_set": run.data_set} if run.data_set else {}),
        "seed": run.seed,
        "trial": run.trial,
    }


def _collect_training(folder: Path, updates: int | None) -> dict[str, Any]:
    """The results of a training run, which its folder keeps when the checkpoints are removed."""
    kept = read_json(folder / "training.json")
    if kept is not None:
        return kept
    log = logs.read_training_log(logs.read_log(folder / "train.log"))
    last = folder / "checkpoints" / "checkpoint_last.pt"
    times = NO_TIME | (read_json(folder / "times.json") or {})
    results = {
        "updates": log.updates or updates,
        "parameters": log.parameters,
        "parameters_without_embeddings": (log.parameters or 0) - vocabulary_parameters(last),
        "train_minutes": times["wall"] / 60,
        "cpu_minutes": times["cpu"] / 60,
        "tokens_per_second": log.tokens_per_second,
        "valid_loss": log.valid_loss,
    }
    if "joules" in times:
        results["energy_wh"] = times["joules"] / 3600
    write_json(folder / "training.json", results)
    return results


def vocabulary_parameters(checkpoint: Path) -> int:
    """The number of parameters whose size depends on the vocabulary; shared ones count once.

    Args:
        checkpoint: a checkpoint of fairseq-train. An average of checkpoints has a copy of each
            matrix that is shared.
    """
    from ..checkpoints.files import load_checkpoint

    weights = load_checkpoint(str(checkpoint))["model"]
    tensors = {
        (tensor.data_ptr(), tensor.shape): tensor.numel()
        for name, tensor in weights.items()
        if VOCABULARY.search(name)
    }
    return sum(tensors.values())


def add_time(path: Path, meter: EnergyMeter, wall: float, cpu: float) -> None:
    """Add a part of a training run, between two interruptions, to the file of its times.

    Args:
        path: the file.
        meter: measures the energy of the part in joules.
        wall, cpu: seconds of the part, and of all processes in it.
    """
    before = NO_TIME | (read_json(path) or {})
    times = {"wall": before["wall"] + wall, "cpu": before["cpu"] + cpu}
    joules = meter.joules()
    if joules is not None:
        times["joules"] = before.get("joules", 0.0) + joules
    write_json(path, times)


def data_sets(names: Iterable[str]) -> list[str]:
    """The data sets of runs, each once."""
    return list(dict.fromkeys(name.rpartition("/")[0] for name in names))


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class _Result(BaseModel):
    """What paths, options and tables are made of in ``result.json``."""

    model_config = ConfigDict(strict=True, defer_build=True)

    system: str
    seed: int
    trial: int | None
    data_set: str = ""
    splits: dict[str, dict[str, float | str | None]]
    diverged: bool = False
    options: dict[str, Any] = {}
    trial_options: dict[str, Any] = {}
    generate: dict[str, Any] = {}
    searches: list[dict[str, Any]] = []
    device: str | None = None
    updates: int | None = None
    valid_loss: float | None = None


def read_result(path: Path, metric: Metric) -> dict[str, Any] | None:
    """The result of a run; None if there is no file.

    Args:
        path: the file.
        metric: the score that each split must have.
    Raises:
        UserError: if it is damaged, names files elsewhere, or was made with another metric.
    """
    content = read_json(path)
    if content is None:
        return None
    try:
        _Result.model_validate(content)
    except ValidationError as error:
        place = ".".join(map(str, error.errors(include_url=False)[0]["loc"]))
        raise UserError(f"{path} is damaged: its {place} is wrong. Remove it.") from error
    for split, scores in content["splits"].items():
        check_name(split, f"{path}: the name of a split")
        if metric not in scores:
            raise UserError(
                f"{path} has no {metric} of {split}, because it was made with another metric: "
                "choose another folder with --out, or remove the folder of the run."
            )
    found: dict[str, Any] = content
    return found


def _part(content: Any, name: str) -> Any:
    return content.get(name) if isinstance(content, dict) else None
