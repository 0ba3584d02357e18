"""Read the output of fairseq-train and fairseq-generate."""

import json
import re
import statistics
from typing import Any, NamedTuple

from ..common.errors import NOT_FINITE

DONE = "done training in"
# Beginnings of lines: fairseq's exception, as without the package and with --fp16, and our message.
DIVERGED = ("FloatingPointError", f"error: {NOT_FINITE}")
# The lines at the end of a log that may tell why a training ended.
LAST_LINES = 20


class TrainingLog(NamedTuple):
    """The results in a log of fairseq-train.

    Attributes:
        done: the training is finished.
        updates: the last update in the log.
        parameters: number of parameters; shared ones count once.
        tokens_per_second: median of the logged speeds; None if there is none.
        valid_loss: the last validation loss; None if there is none.
    """

    done: bool
    updates: int
    parameters: int | None
    tokens_per_second: float | None
    valid_loss: float | None


def read_training_log(text: str) -> TrainingLog:
    """Read a log that fairseq-train wrote with ``--log-format json``."""
    parameters = re.search(r"num\. shared model params: ([\d,]+)", text)
    loss = _last(r'"valid_loss": "([^"]+)"', text)
    updates = _last(r'num_updates": "(\d+)"', text)
    speeds = training_speeds(text)
    return TrainingLog(
        done=DONE in text,
        updates=int(updates or 0),
        parameters=int(parameters[1].replace(",", "")) if parameters else None,
        tokens_per_second=statistics.median(speeds) if speeds else None,
        valid_loss=float(loss) if loss else None,
    )


def read_saved(text: str) -> dict[str, int]:
    """The names of the checkpoints that a training has saved, each with its number of updates."""
    found = re.findall(r"Saved checkpoint \S*?([^/\s]+\.pt) \(epoch \d+ @ (\d+) updates", text)
    return {name: int(updates) for name, updates in found}


def training_speeds(text: str) -> list[float]:
    """The logged speeds of a training in tokens per second."""
    speeds = [float(speed) for speed in re.findall(r'"wps": "([\d.]+)"', text)]
    # The first line of a training has no speed yet.
    return [speed for speed in speeds if speed > 0]


def diverged(text: str) -> bool:
    """A training ended because its gradients or its loss were not finite."""
    return any(line.startswith(DIVERGED) for line in text.splitlines()[-LAST_LINES:])


def read_progress(line: str) -> dict[str, Any] | None:
    """The numbers in a line about the updates of a training; None for any other line."""
    found = re.search(r"\| train_inner \| (\{.*\})", line)
    return json.loads(found[1]) if found else None


def read_bleu(output: str) -> float:
    """The BLEU that fairseq-generate printed, in the tokenization of the data."""
    return float(_last(r"BLEU4? = ([\d.]+)", output) or "nan")


def read_sentences_per_second(log: str) -> float | None:
    """The speed that fairseq-generate logged."""
    speed = _last(r"\(([\d.]+) sentences/s", log)
    return float(speed) if speed else None


def read_translations(output: str, count: int | None = None) -> list[str]:
    """The best translation of each sentence, in the order of the text.

    Args:
        output: the output of fairseq-generate.
        count: number of sentences; None for the highest number in the output. A sentence without
            a translation gets an empty line.
    """
    found: dict[int, str] = {}
    for line in output.split("\n"):
        if line.startswith("H-"):
            number, _, rest = line[2:].partition("\t")
            # The first hypothesis of a sentence is the best.
            found.setdefault(int(number), rest.partition("\t")[2])
    return _in_order(found, count)


def read_references(output: str) -> list[str]:
    """The references in the output of fairseq-generate, in the order of the text."""
    found = {}
    for line in output.split("\n"):
        if line.startswith("T-"):
            number, _, text = line[2:].partition("\t")
            found[int(number)] = text
    return _in_order(found, None)


def _in_order(lines: dict[int, str], count: int | None) -> list[str]:
    size = max(lines, default=-1) + 1 if count is None else count
    return [lines.get(number, "") for number in range(size)]


def _last(pattern: str, text: str) -> str | None:
    found = re.findall(pattern, text)
    return found[-1] if found else None
