"""The command ``systems``."""

import json

import pytest

from benchmarks import systems
from benchmarks.report import systems_table
from convs2s.experiments.reader import read_experiment
from tests.support.benchmark_runs import benchmark

FILE = """
data: {source: de, target: en}
baseline: again
train: {autocast-dtype: bfloat16, criterion: convs2s_cross_entropy, lr: 0.002, max-tokens: 2000}
systems:
  small:
    title: small ConvS2S
    train: {arch: convs2s, encoder-layers: "[(8, 3)]", decoder-layers: "[(8, 3)]", max-epoch: 1}
  large:
    title: large ConvS2S
    train:
      arch: convs2s
      encoder-layers: "[(512, 3)] * 4"
      decoder-layers: "[(512, 3)] * 4"
      max-epoch: 1
  again: {runs_of: small}
  both: {ensemble: {small: 1, large: 1}}
  fairseq:
    train:
      arch: fconv
      criterion: label_smoothed_cross_entropy
      encoder-layers: "[(8, 3)]"
      decoder-layers: "[(8, 3)]"
      max-epoch: 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.yaml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_speeds_of_systems(file, corpus, tmp_path, monkeypatch, capsys):
    target, speeds = tmp_path / "systems.json", tmp_path / "speed.json"
    given = ("--sentences", 4, "--batches", 1, "--rounds", 3, "--json", target, "--speeds", speeds)
    assert benchmark(monkeypatch, "systems", file, corpus / "bin", *given) == 0
    result = json.loads(target.read_text(encoding="utf-8"))
    # A system that takes the models of others has no speed of its own, also as the baseline.
    assert result["baseline"] == "small ConvS2S"
    titles = ["small ConvS2S", "large ConvS2S", "fairseq"]
    options = dict(result["settings"]["large ConvS2S"]["options"])
    assert options["encoder_layers"] == "[(512, 3)] * 4"
    assert result["settings"]["large ConvS2S"]["dtype"] == "bfloat16"
    assert result["settings"]["fairseq"]["criterion"] == "label_smoothed_cross_entropy"
    for unit in ("tokens_per_second", "sentences_per_second"):
        relative = result["relative_rates"][unit]
        assert list(relative) == titles
        assert relative["small ConvS2S"] == {"median": 1, "minimum": 1, "maximum": 1}
        assert relative["large ConvS2S"]["median"] < 1
        rates = result["rates"][unit]
        assert rates["large ConvS2S"]["median"] < rates["small ConvS2S"]["median"]
    table = systems_table(result)
    assert "| small ConvS2S | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in table
    assert table in capsys.readouterr().out
    written = json.loads(speeds.read_text(encoding="utf-8"))
    assert list(written) == ["small", "large", "fairseq"]
    measured = result["rates"]["tokens_per_second"]["small ConvS2S"]
    assert written["small"]["tokens_per_second"] == {
        "median": measured["median"],
        "min": measured["minimum"],
        "max": measured["maximum"],
    }


def test_sentences_of_the_split_are_counted(file, corpus):
    system = read_experiment(file).systems["small"]
    setting = systems.model_setting(system)._replace(data=str(corpus / "bin"), sentences=4)
    assert systems.amount_of_work("sentences_per_second", setting) == 4
    assert systems.amount_of_work("tokens_per_second", setting) > 4


def test_a_file_that_is_missing(tmp_path, corpus, monkeypatch, capsys):
    given = ("systems", tmp_path / "nothing.yaml", corpus / "bin")
    assert benchmark(monkeypatch, *given) == 2
    assert "nothing.yaml" in capsys.readouterr().err
