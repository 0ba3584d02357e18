"""The curves of a training, from the log of fairseq-train.

The log may have any of its formats but ``--log-format none``.
"""

import math
from typing import NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_lines
from ..experiments.logs import read_stats

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
        stats = read_stats(line)
        if stats and stats.kind != "epoch":
            _add(curves.valid if stats.kind == "valid" else curves.train, stats.values)
    if not curves.train and not curves.valid:
        raise UserError(
            f"{path} has no lines about training: give a log that fairseq-train printed, or wrote "
            "with --log-file, and not with --log-format none."
        )
    return curves


def _add(curves: dict[str, Series], stats: dict[str, float]) -> None:
    """Add the numbers of a line to the curves."""
    updates = int(stats.pop("num_updates"))
    for name, value in stats.items():
        if math.isfinite(value):
            curves.setdefault(name, {})[updates] = value
