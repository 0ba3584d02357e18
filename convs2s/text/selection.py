"""Which of the cleaned pairs are for training, and which are held out.

Only this stage compares pairs of the whole text with each other. It reads their hashes, eight bytes
each, and sorts them into files small enough for little memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ..common.errors import UserError
from ..common.progress import show_progress
from . import parts
from .cleaning import REASONS, choose_held_out, held_out_size
from .parts import check_count, part, part_sizes, read_counts
from .settings import Settings
from .texts import DECISIONS, HASHES, NOT_FOR_TRAINING, TRAINING, UNWRITTEN

# Hashes that are sorted at a time, as far as this many files suffice.
SORTED, FILES = 2**20, 256


def select(
    folder: Path, cleaned: Path, settings: Settings, lines: Mapping[str, int]
) -> dict[str, Any]:
    """Decide about all cleaned training pairs.

    Args:
        folder: folder to write to.
        cleaned: folder of the stage ``clean``.
        settings: settings of the preparation.
        lines: text that is given -> number of its lines.
    Returns:
        "left_out": reason -> number of training pairs; "sizes": training pairs in each part;
        "chosen": held-out set to cut -> numbers of its lines, counted from 0.
    """
    train, sizes = cleaned / "train", part_sizes(lines["train"])
    left_out = dict.fromkeys(REASONS, 0)
    for counts in read_counts(train, len(sizes)):
        for reason, count in counts["left_out"].items():
            left_out[reason] += count
    with open(folder / DECISIONS, "wb") as file:
        # A full disk is reported here; writing to a map would end the process.
        for size in sizes:
            file.write(bytes(size))
    decisions = np.memmap(folder / DECISIONS, np.uint8, "r+")
    held_out = [
        hashes
        for name, count in lines.items()
        if name != "train"
        for _, hashes in _hashes(cleaned / name, part_sizes(count))
    ]
    known = np.unique(np.concatenate([np.empty(0, np.uint64), *held_out]))
    shown = show_progress(_hashes(train, sizes), "parts", "Comparing with held-out text")
    for start, hashes in shown:
        found = decisions[start : start + len(hashes)]
        found[:] = np.where(hashes == 0, UNWRITTEN, TRAINING)
        left_out["held_out"] += _leave_out(found, hashes, known)
    if not settings.limits.duplicates:
        left_out["duplicate"] = _leave_out_duplicates(folder, train, sizes, decisions)
    if not (pairs := _count(decisions)):
        reasons = [f"{count:,} {REASONS[name]}" for name, count in left_out.items() if count]
        raise UserError(
            f"No training pair is left after cleaning: {', '.join(reasons)}. Check that the "
            "files are translations of each other, line by line, and change the limits "
            "(--max-length, --max-ratio)."
        )
    chosen, also_held_out = _hold_out(train, sizes, decisions, pairs, settings)
    left_out["held_out"] += also_held_out
    kept = [
        _count(decisions[start : start + size])
        for start, size in zip(range(0, len(decisions), parts.LINES), sizes)
    ]
    decisions.flush()
    if not sum(kept):
        raise UserError(
            f"No training pair is left: all {also_held_out:,} that are not held out "
            "equal pairs that are. The text has too few different pairs."
        )
    return {"left_out": left_out, "sizes": kept, "chosen": chosen}


def _hold_out(
    train: Path, sizes: Sequence[int], decisions: np.memmap, pairs: int, settings: Settings
) -> tuple[dict[str, list[int]], int]:
    """The lines of each set to cut, and how many further pairs equal one of them."""
    wanted = {name: size or held_out_size(pairs) for name, size in settings.cut.items()}
    chosen: dict[str, list[int]] = {name: [] for name in wanted}
    if not wanted:
        return chosen, 0
    places = sorted(choose_held_out(pairs, wanted).items())
    held_out = []
    before = taken = 0
    for start, hashes in _hashes(train, sizes):
        found = decisions[start : start + len(hashes)]
        candidates = np.flatnonzero(found == TRAINING)
        while taken < len(places) and places[taken][0] < before + len(candidates):
            place, name = places[taken]
            index = candidates[place - before]
            chosen[name].append(start + int(index))
            held_out.append(hashes[index])
            found[index] = NOT_FOR_TRAINING
            taken += 1
        before += len(candidates)
    known = np.unique(np.array(held_out, np.uint64))
    equal = 0
    for start, hashes in show_progress(_hashes(train, sizes), "parts", "Holding out"):
        equal += _leave_out(decisions[start : start + len(hashes)], hashes, known)
    return chosen, equal


def _leave_out(decisions: np.ndarray, hashes: np.ndarray, known: np.ndarray) -> int:
    """Drop training pairs with known hashes, and return their number."""
    found = np.isin(hashes, known) & (decisions == TRAINING)
    decisions[found] = NOT_FOR_TRAINING
    return int(found.sum())


def _leave_out_duplicates(
    folder: Path, train: Path, sizes: Sequence[int], decisions: np.memmap
) -> int:
    """Drop training pairs that occurred before, and return their number."""
    number = min(FILES, len(decisions) // SORTED + 1)
    paths = [folder / f"sorted{index}" for index in range(number)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for start, hashes in show_progress(_hashes(train, sizes), "parts", "Sorting"):
            (places,) = np.nonzero(decisions[start : start + len(hashes)] == TRAINING)
            hashes = hashes[places]
            table = np.stack([hashes, (places + start).astype(np.uint64)], axis=1)
            for index, file in enumerate(files):
                # Rows stay in the order of the text.
                file.write(table[hashes % number == index].tobytes())
    duplicates = 0
    for path in show_progress(paths, "files", "Looking for duplicates"):
        table = np.fromfile(path, np.uint64).reshape(-1, 2)
        path.unlink()
        again = np.ones(len(table), bool)
        again[np.unique(table[:, 0], return_index=True)[1]] = False
        decisions[table[again, 1]] = NOT_FOR_TRAINING
        duplicates += int(again.sum())
    return duplicates


def _hashes(folder: Path, sizes: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    """The number of the first line of each part, and the hashes of its lines; 0 if dropped."""
    for number, size in enumerate(sizes):
        path = part(folder, number) / HASHES
        hashes = np.fromfile(path, np.uint64)
        check_count(size, str(path), len(hashes))
        yield number * parts.LINES, hashes


def _count(decisions: np.ndarray) -> int:
    return sum(
        int((decisions[start : start + parts.LINES] == TRAINING).sum())
        for start in range(0, len(decisions), parts.LINES)
    )
