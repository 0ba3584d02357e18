"""The file ``results.json``: all results, from which the tables can be made again."""

import json
from pathlib import Path
from typing import Any

from ..evaluation.significance import Significance
from ..output_files import atomic_write
from .comparison import Comparison
from .summary import Summary, chosen_trial, split_names


def write_results(path: Path, comparison: Comparison, signatures: dict[str, list[str]]) -> None:
    """Write all results, trials included.

    Args:
        path: the file.
        comparison: the results.
        signatures: the signatures of each metric.
    """
    summaries = comparison.summaries
    content = {
        "title": comparison.title,
        "baseline": comparison.baseline,
        "limit_updates": comparison.limit_updates,
        "systems": {summary.name: summary.title for summary in summaries},
        "signatures": signatures,
        "speeds": {summary.name: summary.speeds for summary in summaries if summary.speeds},
        "differences": [
            {"system": system, "split": split, **found._asdict()}
            for (system, split), found in comparison.differences.items()
        ],
        "results": comparison.results,
    }
    with atomic_write(str(path)) as file:
        json.dump(content, file, ensure_ascii=False, indent=2)
        file.write("\n")


def read_results(path: Path) -> Comparison:
    """The comparison in a file that ``write_results`` wrote.

    Its translations are not in the file; the differences between systems are.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    results = content["results"]
    summaries = [
        _summary(name, title, results, content["speeds"].get(name, {}))
        for name, title in content["systems"].items()
    ]
    return Comparison(
        title=content["title"],
        baseline=content["baseline"],
        limit_updates=content["limit_updates"],
        summaries=summaries,
        tests=split_names(result for result in results if result.get("trial") is None),
        differences={
            (each["system"], each["split"]): Significance(each["difference"], each["p"])
            for each in content["differences"]
        },
    )


def _summary(
    name: str, title: str, results: list[dict[str, Any]], speeds: dict[str, Any]
) -> Summary:
    """The results of a system."""
    mine = [result for result in results if result["system"] == name]
    runs = [result for result in mine if result.get("trial") is None]
    trials = [result for result in mine if result.get("trial") is not None]
    # Without a final run, there may be trials to come.
    chosen = chosen_trial(trials, len(trials) if runs else 0)
    return Summary(name, title, runs, trials, chosen, [], speeds)
