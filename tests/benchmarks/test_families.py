"""The command ``families``."""

import json

import pytest

from benchmarks import families
from benchmarks.report import families_table
from benchmarks.setting import Setting
from tests.support.benchmark_runs import benchmark


@pytest.mark.slow
def test_times_and_memory_of_a_family(tmp_path, monkeypatch, capsys):
    setting = Setting("convs2s_iwslt_de_en", words=60, layers=1)
    monkeypatch.setattr(families, "FAMILIES", {"ConvS2S": setting})
    monkeypatch.setattr(families, "LENGTHS", (5, 50))
    target = tmp_path / "families.json"
    given = ("--tokens", 100, "--rounds", 1, "--json", target)
    assert benchmark(monkeypatch, "families", *given) == 0
    result = json.loads(target.read_text(encoding="utf-8"))
    for work in ("train", "generate"):
        first, second = result["relative_times"][work]["ConvS2S"]
        assert first == {"median": 1, "minimum": 1, "maximum": 1}
        assert second["median"] > 0
    # Beam search takes ten times as many steps.
    assert second["median"] > 1
    assert all(peak > 0 for peak in result["peak_bytes_of_training"]["ConvS2S"])
    table = families_table(result)
    assert "| work | family | 5 tokens | 50 tokens |" in table
    assert "| training step | ConvS2S | 1.0 |" in table
    assert table in capsys.readouterr().out
