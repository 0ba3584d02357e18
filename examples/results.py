"""What fairseq's logs say of a training and a translation, and tables of it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable


def figures(training: str, generation: str) -> dict[str, float]:
    """What fairseq-train and fairseq-generate logged: parameters, and both speeds."""
    parameters = re.search(r"num\. shared model params: ([\d,]+)", training)[1]
    speeds = [float(wps) for wps in re.findall(r'"wps": "([\d.]+)"', training)]
    return {
        "parameters": int(parameters.replace(",", "")),
        "words_per_second": statistics.median(speeds),
        "sentences_per_second": float(re.findall(r"([\d.]+) sentences/s", generation)[-1]),
    }


def bleu(translations: str) -> float:
    """The BLEU that fairseq-generate printed, tokenised as the data is."""
    return float(re.findall(r"BLEU4 = ([\d.]+)", translations)[-1])


def mean(runs: list[dict], figure: str) -> float:
    """The mean of a figure over the runs of a model."""
    return statistics.mean(run[figure] for run in runs)


def fastest(runs: list[dict], figure: str) -> float:
    """A speed of a model: what else runs on the machine makes a run slower, never faster."""
    return max(run[figure] for run in runs)


def each(runs: list[dict], figure: str) -> str:
    """A BLEU of all runs of a model, by their seeds."""
    return ", ".join(f"{run[figure]:.2f}" for run in runs)


def table(
    results: list[dict], best: str, columns: dict[str, Callable[[list[dict]], object]]
) -> str:
    """Markdown: a line for each model, the best first.

    Args:
        results: of all runs, each with its "model" and "seed".
        best: the figure whose mean orders the models.
        columns: title -> what it shows of the runs of a model, which are ordered by seed.
    """
    models: dict[str, list[dict]] = {}
    for result in sorted(results, key=lambda result: result["seed"]):
        models.setdefault(result["model"], []).append(result)
    lines = [f"| {' | '.join(['model', *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for name, runs in sorted(models.items(), key=lambda item: -mean(item[1], best)):
        cells = [f"`{name}`", *(str(column(runs)) for column in columns.values())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
