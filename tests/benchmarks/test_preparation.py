"""The command ``prepare``: memory of ``convs2s prepare``."""

import json
import sys

import pytest

from benchmarks import preparation
from convs2s.common.errors import UserError
from tests.support.benchmark_runs import benchmark
from tests.support.commands import server

MEBIBYTE = 2**20


def test_generated_pairs_are_prepared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(preparation, "find_program", lambda name: [str(server().programs / name)])
    target = tmp_path / "prepare.json"
    assert benchmark(monkeypatch, "prepare", "--pairs", 300, "--json", target) == 0
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["pairs"] == 300 and result["peak_bytes"] > 0 and result["minutes"] > 0
    assert capsys.readouterr().out.startswith("300 pairs, ")


def test_text(tmp_path):
    path = tmp_path / "text"
    different = preparation.write_text(path, 50, 1)
    lines = path.read_text().splitlines()
    assert len(lines) == 50 and len({word for line in lines for word in line.split()}) == different
    assert all(preparation.SHORTEST <= len(line.split()) <= preparation.LONGEST for line in lines)
    assert preparation.write_text(path, 50, 1) == different
    assert path.read_text().splitlines() == lines
    words = [preparation.word(rank) for rank in range(5000)]
    assert len(set(words)) == 5000


def test_memory_of_a_process_and_of_those_it_starts(monkeypatch):
    """Both hold 50 MiB when the inner one waits."""
    hold = "import time; held = bytearray(b'x') * (50 * 2**20); "
    inner = f"{hold}time.sleep(1)"
    outer = f"{hold}import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    monkeypatch.setattr(preparation, "INTERVAL", 0.01)
    _, peak = preparation.measure([sys.executable, "-c", outer])
    assert 100 * MEBIBYTE < peak < 150 * MEBIBYTE


def test_a_command_that_fails():
    with pytest.raises(UserError, match="failed: no good"):
        preparation.measure([sys.executable, "-c", "import sys; sys.exit('no good')"])
