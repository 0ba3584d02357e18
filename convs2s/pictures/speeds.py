"""The scores of systems over their speeds, which ``convs2s experiment --speed`` measures."""

import json
import statistics
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_text
from .figures import TITLES, color, label_axes, literal, marker, titles_of

UNITS = {
    "tokens_per_second": "training, target tokens/s",
    "sentences_per_second": "translation, sentences/s",
}


class Speed(NamedTuple):
    """The median speed of several measurements, the smallest and the largest one."""

    median: float
    low: float
    high: float


class System(NamedTuple):
    """A system.

    Attributes:
        score: its mean over seeds, and over data sets.
        speeds: key of ``UNITS`` -> its speed, where it was measured.
    """

    score: float
    speeds: dict[str, Speed]


class Speeds(NamedTuple):
    """Systems with scores and speeds.

    Attributes:
        metric: "bleu" or "wer".
        split: the data that was scored.
        systems: title -> system.
    """

    metric: str
    split: str
    systems: dict[str, System]


def read_speeds(path: str, split: str | None = None) -> Speeds:
    """Read the scores and speeds from the results.json of an experiment.

    Args:
        path: the file.
        split: a test set or "valid"; None for the first test set.
    Raises:
        UserError: if the file is another one, or has no speeds or no such split.
    """
    try:
        content = json.loads(read_text(path))
        metric, measured = content["metric"], content["speeds"]
        runs = [run for run in content["results"] if run["trial"] is None]
        splits = dict.fromkeys(name for run in runs for name in run["splits"])
        used = split or next((name for name in splits if name != "valid"), "valid")
        if splits and used not in splits:
            raise UserError(
                f"{path} has no results on {used}: choose one of {', '.join(splits)} (--split)."
            )
        systems = {}
        for name, title in titles_of(content["systems"]).items():
            own = (run["splits"] for run in runs if run["system"] == name)
            scores = [float(each[used][metric]) for each in own if used in each]
            speeds = {
                unit: Speed(*(float(found[key]) for key in ("median", "min", "max")))
                for unit, found in measured.get(name, {}).items()
                if unit in UNITS
            }
            if scores and speeds:
                systems[title] = System(statistics.mean(scores), speeds)
    except UserError:
        raise
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} has no speeds of systems: give the results.json of `convs2s experiment`."
        ) from error
    if not systems:
        raise UserError(
            f"{path} has no speeds: `convs2s experiment --speed` measures them after all runs."
        )
    return Speeds(metric, used, systems)


def plot(pyplot: Any, found: Speeds) -> Any:
    """Return a figure with the score over the speed in training and in translation.

    Lines go from the smallest to the largest measurement. Better scores are further up.
    """
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
    for axis, (unit, title) in zip(axes, UNITS.items()):
        for number, (name, system) in enumerate(found.systems.items()):
            if unit in system.speeds:
                median, low, high = system.speeds[unit]
                axis.errorbar(
                    median,
                    system.score,
                    xerr=[[median - low], [high - median]],
                    color=color(number),
                    marker=marker(number),
                    linestyle="none",
                    label=literal(name),
                )
        label_axes(axis, title, "")
        axis.set_xlim(left=0)
    axes[0].set_ylabel(literal(f"{TITLES[found.metric]}, {found.split}"))
    if found.metric == "wer":
        axes[0].invert_yaxis()
    shown = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(shown.values(), shown.keys(), loc="outside right upper", fontsize=8)
    return figure
