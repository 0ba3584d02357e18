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
    stages = result["stages"]
    assert sum(stage["seconds"] for stage in stages.values()) > 0
    assert max(stage["disk_bytes"] for stage in stages.values()) > result["bytes_of_text"]
    printed = capsys.readouterr().out
    assert printed.startswith("300 pairs, ") and "| binarize |" in printed


def test_text(tmp_path):
    path = tmp_path / "text"
    different = preparation.write_text(path, 50, 1)
    lines = path.read_text().splitlines()
    assert len(lines) == 50 and len({word for line in lines for word in line.split()}) == different
    shortest, longest = preparation.WORDS
    assert all(shortest <= len(line.split()) <= longest for line in lines)
    assert preparation.write_text(path, 50, 1) == different
    assert path.read_text().splitlines() == lines
    preparation.write_text(path, 50, 1, 2, 3)
    assert {len(line.split()) for line in path.read_text().splitlines()} == {2, 3}
    words = [preparation.word(rank) for rank in range(5000)]
    assert len(set(words)) == 5000


def test_words_in_the_wrong_order(monkeypatch, capsys):
    assert benchmark(monkeypatch, "prepare", "--pairs", 1, "--words", 5, 3) == 2
    assert "--words is 5 3: give the smaller number first." in capsys.readouterr().err


def test_memory_of_a_process_and_of_those_it_starts(monkeypatch, tmp_path):
    """Both hold 50 MiB when the inner one waits."""
    hold = "import time; held = bytearray(b'x') * (50 * 2**20); "
    inner = f"{hold}time.sleep(1)"
    outer = f"{hold}import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    monkeypatch.setattr(preparation, "INTERVAL", 0.01)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(bytes(1000))
    _, stages = preparation.measure([sys.executable, "-c", outer], tmp_path)
    assert 100 * MEBIBYTE < stages["binarize"]["peak_bytes"] < 150 * MEBIBYTE
    assert stages["binarize"]["disk_bytes"] == 1000


def test_a_command_that_fails(tmp_path):
    with pytest.raises(UserError, match="failed: no good"):
        preparation.measure([sys.executable, "-c", "import sys; sys.exit('no good')"], tmp_path)
