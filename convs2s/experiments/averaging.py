"""The choice of the checkpoints that are averaged."""

import re
from pathlib import Path

from .file import Averaging


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
    count = max(averaging.checkpoints, 1) - 1
    before = names[len(names) - min(count, len(names)) :]
    return [folder / name for name in (*before, "checkpoint_last.pt")]
