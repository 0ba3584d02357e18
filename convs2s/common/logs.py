"""Read the output of fairseq-train, in all of its formats, and of fairseq-generate."""

import json
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import NOT_FINITE

DONE = "done training in"
# Beginnings of lines: fairseq's exception, as without the package and with --fp16, and our message.
DIVERGED = ("FloatingPointError", f"error: {NOT_FINITE}")
# The lines at the end of a log that may tell why a training run ended.
LAST_LINES = 20

# In front of what fairseq-train and fairseq-hydra-train print; --log-file has bare messages.
_PREFIX = re.compile(r".*?(\| INFO \| \S+ \| |\]\[INFO\] - )")
_TRAIN = re.compile(r"epoch \d+: +\d+ / \d+ (.*)")
_VALID = re.compile(r"epoch \d+ \| valid on 'valid' subset \| (.*)")
_ASSIGNMENT = re.compile(r"(\w+)=([^,\s]+)")
_COLUMN = re.compile(r"(\w+) (\S+)")


def read_log(path: Path) -> str:
    """The text of a log; "" if there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


class Stats(NamedTuple):
    """The numbers in a line of a log.

    Attributes:
        kind: "updates" for a mean over the last updates, "epoch" for one over an epoch, and "valid"
            for the first validation set.
        values: by name, without the prefix of the kind: "loss", "num_updates", "wps", "ppl", ...
    """

    kind: str
    values: dict[str, float]


class TrainingLog(NamedTuple):
    """The results in a log of fairseq-train.

    Attributes:
        updates: the last update in the log.
        parameters: number of parameters; shared ones count once.
        tokens_per_second: median of the logged speeds; None if there is none.
        valid_loss: the last validation loss; None if there is none.
    """

    updates: int
    parameters: int | None
    tokens_per_second: float | None
    valid_loss: float | None


def read_stats(line: str) -> Stats | None:
    """The numbers in a line; None for a line that is not about updates."""
    if "num_updates" not in line:
        return None
    message = _PREFIX.sub("", line.rstrip(), count=1)
    values = dict(_numbers(message))
    kinds = {
        "valid_": "valid",
        "train_": "epoch",
        "": "valid" if _VALID.match(message) else "updates",
    }
    for prefix, kind in kinds.items():
        if math.isfinite(values.get(f"{prefix}num_updates", math.nan)):
            return Stats(kind, {name.removeprefix(prefix): x for name, x in values.items()})
    return None


def _numbers(message: str) -> Iterator[tuple[str, float]]:
    """The numbers in a message, by name."""
    pairs: list[tuple[str, object]] = []
    if message.startswith("{"):
        try:
            pairs = list(json.loads(message).items())
        except json.JSONDecodeError:
            # The end of the line is missing, because the training run was killed.
            return
    elif found := _TRAIN.match(message):
        pairs = _ASSIGNMENT.findall(found[1])
    elif found := _VALID.match(message):
        columns = map(_COLUMN.fullmatch, map(str.strip, found[1].split("|")))
        pairs = [(match[1], match[2]) for match in columns if match]
    for name, value in pairs:
        try:
            yield name, float(str(value))
        except ValueError:
            continue


def read_training_log(text: str) -> TrainingLog:
    """Read a whole log."""
    parameters = re.search(r"num\. shared model params: ([\d,]+)", text)
    found = _all_stats(text)
    losses = [values["loss"] for kind, values in found if kind == "valid" and "loss" in values]
    speeds = training_speeds(text)
    return TrainingLog(
        updates=int(found[-1].values["num_updates"]) if found else 0,
        parameters=int(parameters[1].replace(",", "")) if parameters else None,
        tokens_per_second=statistics.median(speeds) if speeds else None,
        valid_loss=losses[-1] if losses else None,
    )


def training_speeds(text: str) -> list[float]:
    """The logged speeds of a training run in tokens per second."""
    speeds = [values.get("wps", 0) for kind, values in _all_stats(text) if kind == "updates"]
    # The first line of a training run has no speed yet.
    return [speed for speed in speeds if 0 < speed < math.inf]


def _all_stats(text: str) -> list[Stats]:
    return [stats for stats in map(read_stats, text.splitlines()) if stats]


def diverged(text: str) -> bool:
    """A training run ended because its gradients or its loss were not finite."""
    return any(line.startswith(DIVERGED) for line in text.splitlines()[-LAST_LINES:])


def read_bleu(output: str) -> float:
    """The BLEU that fairseq-generate printed, in the tokenization of the data."""
    return float((re.findall(r"BLEU4? = ([\d.]+)", output) or ["nan"])[-1])


def sentences_per_second(output: Path) -> float | None:
    """The speed that fairseq-generate logged, in its output or in the log beside it."""
    log = "".join(file.read_text("utf-8") for file in (output.with_suffix(".log"), output))
    found = re.findall(r"\(([\d.]+) sentences/s", log)
    return float(found[-1]) if found else None
