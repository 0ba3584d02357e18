"""The choice of the checkpoints that are averaged."""

import re
from pathlib import Path

from .file import Averaging


def last_checkpoints(folder: Path, saved: dict[str, int], averaging: Averaging) -> list[Path]:
    """The checkpoints to average, the last one at the end.

    Args:
        folder: the folder of the checkpoints.
        saved: names of saved checkpoints, each with its number of updates; they may be gone.
        averaging: the checkpoints to choose.
    """
    total = max(saved.values())
    interval = averaging.interval(total)
    # Two checkpoints of the same update are the same; the last one is among them.
    numbered = {
        updates: name
        for name, updates in saved.items()
        if re.fullmatch(r"checkpoint(_\d+_)?\d+\.pt", name) and (folder / name).exists()
        if updates < total and (interval is None or updates % interval == 0)
    }
    names = [name for _, name in sorted(numbered.items())]
    count = max(averaging.checkpoints, 1) - 1
    before = names[len(names) - min(count, len(names)) :]
    return [folder / name for name in (*before, "checkpoint_last.pt")]
