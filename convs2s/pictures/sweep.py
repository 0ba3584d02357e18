"""The score over the values of an option, from the results of ``convs2s experiment``.

As in figure 2 of Gehring et al. 2017 and figure 4 of Elbayad et al. 2018.
"""

import json
import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_text
from .figures import TITLES, color, label_axes, literal, marker

Value = float | str


class Point(NamedTuple):
    """The runs with one value of the option.

    Attributes:
        value: the value.
        score: mean score over the seeds.
        deviation: standard deviation over the seeds; None for one seed.
    """

    value: Value
    score: float
    deviation: float | None


class Sweep(NamedTuple):
    """The results of a sweep.

    Attributes:
        option: the name of the option.
        split: the data that was scored.
        lines: the points of each line, by its name; the runs of a line differ in this option only,
            and in those that always have the same value. If some line has several points, lines
            with one are omitted.
        metric: the score.
    """

    option: str
    split: str
    lines: dict[str, list[Point]]
    metric: str = "bleu"


def read_sweep(path: str, option: str | None = None, split: str | None = None) -> Sweep:
    """Read a sweep from the results.json of an experiment.

    Trials count if there is no other run with the option.

    Args:
        path: the file.
        option: the name of an option of fairseq-train, without dashes before it; None for the
            only one in which runs differ.
        split: a test set or "valid"; None for the first test set, or "valid" for trials.
    Raises:
        UserError: if the file is another one, no runs differ in the option, or they differ in
            several and none is named.
    """
    text = read_text(path)
    try:
        return _sweep(json.loads(text), path, option, split)
    except UserError:
        raise
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} has no results: give the results.json of `convs2s experiment`."
        ) from error


def _sweep(content: Any, path: str, option: str | None, split: str | None) -> Sweep:
    if option is None:
        option = _only_option(path, content["results"])
    runs = [
        run
        for run in content["results"]
        if option in run["options"] and not run.get("diverged", False)
    ]
    titles = content["systems"]
    finished = [run for run in runs if run["trial"] is None]
    chosen = finished if _varies(finished, option) else runs
    if not _varies(chosen, option):
        varying = _varying(content["results"])
        raise UserError(
            f"No runs of {path} differ in {option}: choose one of "
            f"{', '.join(varying) or 'no options, because all are equal'} (--option)."
        )
    tests = [name for name in chosen[0]["splits"] if name != "valid"]
    tested = tests and all(tests[0] in run["splits"] for run in chosen)
    used = split or (tests[0] if tested else "valid")
    for run in chosen:
        if used not in run["splits"]:
            raise UserError(
                f"{path} has no results on {used} for all runs: choose one of "
                f"{', '.join(run['splits'])} (--split)."
            )
    metric = content.get("metric", "bleu")
    return Sweep(option, used, _lines(chosen, option, used, titles, metric), metric)


def _varies(runs: Iterable[dict[str, Any]], option: str) -> bool:
    return len({str(run["options"].get(option)) for run in runs}) > 1


def _varying(runs: list[dict[str, Any]]) -> list[str]:
    """The options in which runs differ."""
    options = sorted({name for run in runs for name in run["options"]})
    return [name for name in options if _varies(runs, name)]


def _only_option(path: str, runs: list[dict[str, Any]]) -> str:
    """The option in which runs differ, those without trials first, as ``read_sweep`` draws them."""
    finished = [run for run in runs if run["trial"] is None]
    varying = _varying(finished) or _varying(runs)
    if not varying:
        raise UserError(f"The runs of {path} have the same options: there is nothing to plot.")
    # Options with the same values, such as the sizes of both embeddings, are drawn as one.
    if len({tuple(str(run["options"].get(name)) for run in runs) for name in varying}) > 1:
        raise UserError(
            f"The runs of {path} differ in several options: choose one of {', '.join(varying)} "
            "(--option)."
        )
    return varying[0]


def _lines(
    runs: list[dict[str, Any]], option: str, split: str, titles: dict[str, str], metric: str
) -> dict[str, list[Point]]:
    """The points of each line."""
    # Such as the sizes of both embeddings.
    same = {
        name
        for name in runs[0]["options"]
        if all(run["options"].get(name) == run["options"][option] for run in runs)
    }
    others = [name for name in _varying(runs) if name not in same]
    by_others: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in runs:
        key = tuple(str(run["options"].get(name)) for name in others)
        by_others.setdefault(key, []).append(run)
    lines = [(members, _points(members, option, split, metric)) for members in by_others.values()]
    if any(len(points) > 1 for _, points in lines):
        lines = [(members, points) for members, points in lines if len(points) > 1]
    drawn = [run for members, _ in lines for run in members]
    varying = [name for name in _varying(drawn) if name not in same]
    return {
        _line_name(members[0], varying, titles, len(lines)): points for members, points in lines
    }


def _points(runs: list[dict[str, Any]], option: str, split: str, metric: str) -> list[Point]:
    """The points of one line, by value."""
    found: dict[Value, dict[tuple[Any, ...], list[float]]] = {}
    for run in runs:
        of_value = found.setdefault(_number(run["options"][option]), {})
        # The same run on several data sets counts once, with its mean.
        key = run["system"], run["seed"], run["trial"]
        of_value.setdefault(key, []).append(run["splits"][split][metric])
    points = []
    for value, of_value in sorted(found.items(), key=lambda item: _order(item[0])):
        scores = [*map(statistics.mean, of_value.values())]
        deviation = statistics.stdev(scores) if len(scores) > 1 else None
        points.append(Point(value, statistics.mean(scores), deviation))
    return points


def _line_name(run: dict[str, Any], varying: list[str], titles: dict[str, str], count: int) -> str:
    """The options by which a line differs from the others, or the system if it is the only one."""
    if count == 1 or not varying:
        return str(titles.get(run["system"], run["system"]))
    return ", ".join(f"{name} {run['options'].get(name, '-')}" for name in varying)


def _number(value: Any) -> Value:
    """A number if the value is one, or its text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _order(value: Value) -> tuple[int, float, str]:
    return (1, 0.0, value) if isinstance(value, str) else (0, value, "")


def plot(pyplot: Any, sweep: Sweep) -> Any:
    """Return a figure of the score over the values of the option, with bars of deviation."""
    figure, axis = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    values = sorted(
        {point.value for points in sweep.lines.values() for point in points}, key=_order
    )
    places = _places(axis, values)
    for number, (name, points) in enumerate(sweep.lines.items()):
        axis.errorbar(
            [places[point.value] for point in points],
            [point.score for point in points],
            yerr=[point.deviation or 0.0 for point in points],
            color=color(number),
            marker=marker(number),
            capsize=3,
            label=literal(name),
        )
    label_axes(axis, sweep.option, f"{TITLES[sweep.metric]} ({sweep.split})")
    if len(sweep.lines) > 1:
        axis.legend(frameon=False)
    return figure


def _places(axis: Any, values: list[Value]) -> dict[Value, float]:
    """The place of each value on the axis, which is logarithmic if the values span a decade."""
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) < len(values):
        names = [literal(value) if isinstance(value, str) else f"{value:g}" for value in values]
        axis.set_xticks(range(len(values)), names)
        return {value: float(place) for place, value in enumerate(values)}
    axis.set_xticks(numbers, [f"{value:g}" for value in numbers])
    if min(numbers) > 0 and max(numbers) >= 10 * min(numbers):
        axis.set_xscale("log")
        axis.set_xticks(numbers, [f"{value:g}" for value in numbers])
        axis.minorticks_off()
    return {value: value for value in numbers}
