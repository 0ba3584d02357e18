"""The file ``results.json``: all results."""

import json
from pathlib import Path

from ..common.output_files import atomic_write
from .comparison import Comparison


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
