"""Run ``python -m benchmarks`` in this process."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.__main__ import main  # noqa: E402

TINY = ("--words", 60, "--sentences", 2, "--length", 4)


def benchmark(monkeypatch, *arguments) -> int:
    """The exit status of the command with these arguments."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
    return main()
