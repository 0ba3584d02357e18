"""The report of an experiment: tables in Markdown, LaTeX and CSV, and all results in JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write(
    out: Path,
    results: Sequence[dict[str, Any]],
    experiment: Any,
    *,
    unfinished: Sequence[str] = (),
    failed: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> str:
    """Write ``results.json``, ``table.md``, ``table.csv`` and ``table.tex``.

    Args:
        out: folder of the experiment; it holds ``runs/``, ``references/`` and maybe ``speed.json``.
        results: the contents of the ``result.json`` of all finished runs, trials included.
        experiment: has ``title``, ``baseline`` (the name of a system, or None) and ``systems``, in
            the order of the tables; each has a ``name`` and a ``title``.
        unfinished: names of the runs that have no result yet.
        failed: names of the runs that failed.
        notes: sentences about the whole experiment, one a line of the report.
    Returns:
        The report in Markdown.
    """
    raise NotImplementedError
