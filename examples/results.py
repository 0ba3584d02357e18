"""Read the results of training and translation from fairseq's output, and make tables of them."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable


def read_logs(training: str, generation: str) -> dict[str, float]:
    """Read the number of parameters and both speeds.

    Args:
        training: the log of fairseq-train.
        generation: the log of fairseq-generate.
    """
    parameters = re.search(r"num\. shared model params: ([\d,]+)", training)[1]
    speeds = [float(wps) for wps in re.findall(r'"wps": "([\d.]+)"', training)]
    return {
        "parameters": int(parameters.replace(",", "")),
        "tokens_per_second": statistics.median(speeds),
        "sentences_per_second": float(re.findall(r"([\d.]+) sentences/s", generation)[-1]),
    }


def read_bleu(translations: str) -> float:
    """Read the BLEU that fairseq-generate printed, in the tokenization of the data."""
    return float(re.findall(r"BLEU4 = ([\d.]+)", translations)[-1])


def mean(runs: list[dict], field: str) -> float:
    """The mean of a number over the runs of a model."""
    return statistics.mean(run[field] for run in runs)


def fastest(runs: list[dict], field: str) -> float:
    """The highest speed of a model's runs: other programs can only make a run slower."""
    return max(run[field] for run in runs)


def each(runs: list[dict], field: str) -> str:
    """The BLEU of each run of a model, in the order of their seeds."""
    return ", ".join(f"{run[field]:.2f}" for run in runs)


def table(
    results: list[dict], best: str, columns: dict[str, Callable[[list[dict]], object]]
) -> str:
    """A table in Markdown with a line for each model, the best model first.

    Args:
        results: the results of all runs, each with its "model" and "seed".
        best: the field whose mean orders the models.
        columns: title -> function from a model's runs, in the order of their seeds, to the cell.
    """
    models: dict[str, list[dict]] = {}
    for result in sorted(results, key=lambda result: result["seed"]):
        models.setdefault(result["model"], []).append(result)
    lines = [f"| {' | '.join(['model', *columns])} |", "|---" * (len(columns) + 1) + "|"]
    for name, runs in sorted(models.items(), key=lambda item: -mean(item[1], best)):
        cells = [f"`{name}`", *(str(column(runs)) for column in columns.values())]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
