"""The scores of systems on several data sets, from the results of ``convs2s experiment``."""

import json
import statistics
import textwrap
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.text_files import read_text
from .figures import COLORS, TITLES, literal, titles_of

# Characters in a line of a system's title.
TITLE_WIDTH = 20


class Scores(NamedTuple):
    """Scores on several data sets.

    Attributes:
        metric: "bleu" or "wer".
        split: the data that was scored.
        sets: the names of the data sets.
        systems: title of a system -> its mean score over seeds on each data set; None for a data
            set on which no run is finished.
    """

    metric: str
    split: str
    sets: list[str]
    systems: dict[str, list[float | None]]


def read_scores(path: str, split: str | None = None) -> Scores:
    """Read the scores from the results.json of an experiment.

    Args:
        path: the file.
        split: a test set or "valid"; None for the first test set.
    Raises:
        UserError: if the file is another one, or has no data sets or no such split.
    """
    try:
        content = json.loads(read_text(path))
        found, metric = content["sets"], content["metric"]
        results = [run for systems in found.values() for runs in systems.values() for run in runs]
        splits = dict.fromkeys(name for run in results for name in run["splits"])
        tests = [name for name in splits if name != "valid"]
        if not results:
            raise UserError(f"{path} has no results on several data sets: give an experiment's.")
        used = split or (tests or ["valid"])[0]
        if used not in splits:
            raise UserError(
                f"{path} has no results on {used}: choose one of {', '.join(splits)} (--split)."
            )
        return Scores(
            metric,
            used,
            [*found],
            {
                title: [_mean(found[name].get(system, []), used, metric) for name in found]
                for system, title in titles_of(content["systems"]).items()
            },
        )
    except UserError:
        raise
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} has no results on several data sets: give the results.json of `convs2s "
            "experiment`."
        ) from error


def _mean(runs: list[dict[str, Any]], split: str, metric: str) -> float | None:
    scores = [float(run["splits"][split][metric]) for run in runs if split in run["splits"]]
    return statistics.mean(scores) if scores else None


def plot(pyplot: Any, scores: Scores) -> Any:
    """Return a figure with one line per data set and one column per system: number and color.

    The best system of a line is in bold type.
    """
    missing = float("nan")
    cells = [
        [missing if (value := column[row]) is None else value for column in scores.systems.values()]
        for row in range(len(scores.sets))
    ]
    width, height = 1.2 + 1.5 * len(scores.systems), 1.4 + 0.28 * len(scores.sets)
    figure, axis = pyplot.subplots(figsize=(width, height), layout="constrained")
    better = "Blues" if scores.metric == "bleu" else "Blues_r"
    image = axis.imshow(cells, aspect="auto", cmap=better)
    titles = [literal(textwrap.fill(title, TITLE_WIDTH)) for title in scores.systems]
    axis.set_xticks(range(len(titles)), titles, fontsize=8)
    axis.set_yticks(range(len(scores.sets)), [*map(literal, scores.sets)])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    best = max if scores.metric == "bleu" else min
    for row, values in enumerate(cells):
        known = [value for value in values if value == value]
        for column, value in enumerate(values):
            if value != value:
                continue
            red, green, blue, _ = image.cmap(image.norm(value))
            is_dark = 0.3 * red + 0.6 * green + 0.1 * blue < 0.5
            axis.text(
                column,
                row,
                f"{value:.1f}",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if is_dark else COLORS[-1],
                weight="bold" if value == best(known) else "normal",
            )
    axis.set_xlabel(literal(f"{TITLES[scores.metric]}, {scores.split}"))
    return figure
