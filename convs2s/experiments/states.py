"""The runs of an experiment in a table: what each needs, its state, and how long it takes."""

import json
import statistics
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..common import logs
from ..common.locks import Locked
from ..common.tables import Table, number, show
from .records import read_json
from .results import NO_TIME, Workplace
from .runs import Run

HEADERS = ("Run", "State", "Needs", "GPUs", "Nodes", "Minutes")


def show_runs(place: Workplace, runs: Sequence[Run], done: Collection[Run], as_json: bool) -> None:
    """Print the runs with their states.

    Args:
        place: the folders of all runs.
        runs: the runs.
        done: the runs that are done.
        as_json: whether to print JSON in place of a table.
    """
    # A lock of another machine takes a few seconds to answer.
    with ThreadPoolExecutor() as pool:
        states = [*pool.map(lambda run: "done" if run in done else state(place, run), runs)]
    found: list[dict[str, Any]] = [
        {
            "run": run.name,
            "state": state,
            "needs": run.needed,
            "gpus": run.system.gpus,
            "nodes": run.system.nodes,
            "minutes": minutes,
        }
        for run, state, minutes in zip(runs, states, training_minutes(place, runs))
    ]
    if as_json:
        print(json.dumps(found, indent=1))
        return
    rows = [
        [
            each["run"],
            each["state"],
            ", ".join(each["needs"]),
            str(each["gpus"]),
            str(each["nodes"]),
            number(each["minutes"], 1),
        ]
        for each in found
    ]
    print(show(Table(HEADERS, rows)), end="")


def state(place: Workplace, run: Run) -> str:
    """The state of a run that is not done: running, failed or waiting."""
    if place.was_locked(run):
        try:
            with place.lock_of(run):
                pass
        except Locked:
            return "running"
    return "waiting" if place.failure(run.name) is None else "failed"


def training_minutes(place: Workplace, runs: Iterable[Run]) -> list[float | None]:
    """The time of each training run in minutes; None if it is unknown, or the run does not train.

    Training runs that are not done are estimated: by their own speed, or otherwise by that of
    others of the same system.

    Args:
        place: the folders of all runs.
        runs: the runs.
    """
    speeds: dict[str, list[float]] = {}
    own: dict[str, float] = {}
    for run in runs:
        if run.models or (progress := _progress(place, run)) is None:
            continue
        minutes, updates = progress
        own[run.name] = minutes / updates
        speeds.setdefault(run.system.name, []).append(own[run.name])

    def estimate(run: Run) -> float | None:
        result = place.result(run.name)
        if run.models:
            return None
        if result is not None and result.get("train_minutes") is not None:
            return float(result["train_minutes"])
        of_system = speeds.get(run.system.name)
        if run.updates is None or of_system is None:
            return None
        return run.updates * own.get(run.name, statistics.median(of_system))

    return [*map(estimate, runs)]


def _progress(place: Workplace, run: Run) -> tuple[float, int] | None:
    """The minutes and the updates of a training run so far; None if it has made no update."""
    folder = place.folder(run.name)
    result: dict[str, Any] = place.result(run.name) or {}
    minutes, updates = result.get("train_minutes"), result.get("updates")
    if minutes is None:
        times = NO_TIME | (read_json(folder / "times.json") or {})
        minutes = times["wall"] / 60
        updates = logs.read_training_log(logs.read_log(folder / "train.log")).updates
    return (minutes, updates) if minutes and updates else None
