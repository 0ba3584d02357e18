"""The curves of a training, from the log of fairseq-train.

The log may have any of its formats but ``--log-format none``.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import UserError
from ..text_files import read_lines

_MESSAGE = re.compile(r"\| INFO \| (?P<kind>\S+) \| (?P<stats>.*)")
_ASSIGNMENT = re.compile(r"(\w+)=([^,\s]+)")
_COLUMN = re.compile(r"(\w+) (\S+)")

# A value at some number of updates.
Series = dict[int, float]


class TrainingCurves(NamedTuple):
    """The curves of a training, each a value by number of updates.

    Attributes:
        train: curves of the training batches, such as "loss", "lr" and "wps".
        valid: curves of the first validation set, such as "loss", "ppl" and "bleu".
    """

    train: dict[str, Series]
    valid: dict[str, Series]


def read_training_curves(path: str) -> TrainingCurves:
    """Read the curves in a log.

    After a restart, fairseq trains some updates again: the later value counts.

    Raises:
        UserError: if the file cannot be read, or has no line about training.
    """
    curves = TrainingCurves({}, {})
    for line in read_lines(path):
        found = _MESSAGE.search(line)
        if found is None:
            continue
        kind, text = found["kind"], found["stats"]
        if kind == "train_inner":
            _add(curves.train, dict(_stats(text)))
        elif kind == "valid":
            _add(curves.valid, dict(_stats(text)))
    if not curves.train and not curves.valid:
        raise UserError(
            f"{path} has no lines about training: give a log that fairseq-train printed, or wrote "
            "with --log-file, and not with --log-format none."
        )
    return curves


def _stats(text: str) -> Iterator[tuple[str, float]]:
    """The numbers in the message of a line, by name."""
    if text.startswith("{"):
        try:
            pairs = [(name, str(value)) for name, value in json.loads(text).items()]
        except json.JSONDecodeError:
            # The end of the line is missing, because the training was killed.
            return
    elif "=" in text:
        pairs = _ASSIGNMENT.findall(text)
    else:
        pairs = [
            (match[1], match[2])
            for match in map(_COLUMN.fullmatch, map(str.strip, text.split("|")))
            if match
        ]
    for name, value in pairs:
        try:
            number = float(value)
        except ValueError:
            continue
        yield name.removeprefix("valid_"), number


def _add(curves: dict[str, Series], stats: dict[str, float]) -> None:
    """Add the numbers of a line to the curves."""
    updates = stats.pop("num_updates", None)
    if updates is None:
        return
    for name, value in stats.items():
        if math.isfinite(value):
            curves.setdefault(name, {})[int(updates)] = value
