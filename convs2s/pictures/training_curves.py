"""The curves of a training, from the log of fairseq-train.

The log may have any of its formats but ``--log-format none``.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_lines

# In front of what fairseq-train and fairseq-hydra-train print; --log-file has bare messages.
_PREFIX = re.compile(r".*?(\| INFO \| \S+ \| |\]\[INFO\] - )")
_TRAIN = re.compile(r"epoch \d+: +\d+ / \d+ (.*)")
_VALID = re.compile(r"epoch \d+ \| valid on 'valid' subset \| (.*)")
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
        message = _PREFIX.sub("", line.rstrip(), count=1)
        stats = dict(_stats(message))
        if "valid_num_updates" in stats or _VALID.match(message):
            _add(curves.valid, {name.removeprefix("valid_"): x for name, x in stats.items()})
        elif "num_updates" in stats:
            _add(curves.train, stats)
    if not curves.train and not curves.valid:
        raise UserError(
            f"{path} has no lines about training: give a log that fairseq-train printed, or wrote "
            "with --log-file, and not with --log-format none."
        )
    return curves


def _stats(text: str) -> Iterator[tuple[str, float]]:
    """The numbers in a message, by name."""
    if text.startswith("{"):
        try:
            pairs = [(name, str(value)) for name, value in json.loads(text).items()]
        except json.JSONDecodeError:
            # The end of the line is missing, because the training was killed.
            return
    elif found := _TRAIN.match(text):
        pairs = _ASSIGNMENT.findall(found[1])
    elif found := _VALID.match(text):
        pairs = [
            (match[1], match[2])
            for match in map(_COLUMN.fullmatch, map(str.strip, found[1].split("|")))
            if match
        ]
    else:
        return
    for name, value in pairs:
        try:
            number = float(value)
        except ValueError:
            continue
        yield name, number


def _add(curves: dict[str, Series], stats: dict[str, float]) -> None:
    """Add the numbers of a line to the curves."""
    updates = stats.pop("num_updates", None)
    if updates is None:
        return
    for name, value in stats.items():
        if math.isfinite(value):
            curves.setdefault(name, {})[int(updates)] = value
