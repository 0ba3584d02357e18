"""The benchmarks measure what they say, on fairseq's models as on ours."""

import json
import re
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.__main__ import main  # noqa: E402
from benchmarks.measure import alternate  # noqa: E402


def test_rounds_alternate_and_the_ratio_is_the_peers_time_over_ours():
    order = []

    def work(name, seconds):
        def run():
            order.append(name)
            time.sleep(seconds)

        return run

    times = alternate(work("ours", 0.01), work("peer", 0.03), rounds=3, warmup=1)
    assert order == ["ours", "peer"] * 4
    assert len(times.ours) == len(times.peer) == 3
    ratio = times.summary()["ratio"]
    assert ratio["minimum"] <= ratio["median"] <= ratio["maximum"] and ratio["median"] > 1.5


@pytest.mark.parametrize("what", ["train", "generate"])
def test_a_run(what, tmp_path, monkeypatch, capsys):
    target = tmp_path / "result.json"
    arguments = ["--words", 60, "--sentences", 2, "--length", 4, "--rounds", 2, "--json", target]
    monkeypatch.setattr(sys, "argv", ["benchmarks", what, *map(str, arguments)])
    assert main() == 0
    assert "ratio (peer's time / ours)" in capsys.readouterr().out
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["peer"] == "fconv_iwslt_de_en" and result["machine"]["torch"]
    assert all(value > 0 for value in result["seconds"]["ratio"].values())


def test_pervasive_attention_and_its_plain_twin(monkeypatch, capsys):
    arguments = ["--arch", "pervasive", "--peer", "plain_pervasive", "--layers", 6, "--rounds", 1]
    arguments += ["--words", 60, "--sentences", 8, "--length", 20, "--memory"]
    monkeypatch.setattr(sys, "argv", ["benchmarks", "train", *map(str, arguments)])
    assert main() == 0
    (share,) = re.findall(r"Peak memory: .* \((.*) of it\)", capsys.readouterr().out)
    assert 0 < float(share) < 0.9


def test_the_loss_in_time_and_memory(tmp_path, monkeypatch, capsys):
    target = tmp_path / "result.json"
    arguments = ["--words", 20000, "--sentences", 40, "--length", 50, "--channels", 16]
    arguments += ["--rounds", 1, "--json", target]
    monkeypatch.setattr(sys, "argv", ["benchmarks", "loss", *map(str, arguments)])
    assert main() == 0
    assert "Peak memory: " in capsys.readouterr().out
    held = json.loads(target.read_text(encoding="utf-8"))["bytes"]
    scores = 20000 * 40 * 50 * 4
    assert 0 < held["ours"] < 1.5 * scores and held["peer"] > 1.5 * scores


def test_an_unknown_architecture_is_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "train", "--arch", "convs3s"])
    assert main() == 2
    assert "There is no architecture convs3s" in capsys.readouterr().err
