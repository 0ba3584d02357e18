"""Run ``python -m benchmarks`` in this process."""

import sys

from benchmarks.__main__ import main

TINY = ("--words", 60, "--sentences", 2, "--length", 4)


def benchmark(monkeypatch, *arguments) -> int:
    """Run the command with these arguments and return its exit status."""
    monkeypatch.setattr(sys, "argv", ["benchmarks", *map(str, arguments)])
    return main()
