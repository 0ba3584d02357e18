"""The command ``layers``."""

import json

from benchmarks import layers
from benchmarks.report import layers_table
from tests.support.benchmark_runs import benchmark


def test_training_and_beam_steps_beside_attention(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(layers, "SIZES", ((2, 5), (1, 9)))
    target = tmp_path / "layers.json"
    given = ("--channels", 16, "--beam", 2, "--rounds", 1, "--json", target)
    assert benchmark(monkeypatch, "layers", "ssru", "cnn(glu)", *given) == 0
    result = json.loads(target.read_text(encoding="utf-8"))
    for work in ("training step", "beam step"):
        found = result["relative_to_attention"][work]
        assert list(found) == ["mh_dot_self_att", "ssru", "cnn(glu)"]
        assert found["mh_dot_self_att"] == [{"median": 1, "minimum": 1, "maximum": 1}] * 2
        assert all(ratio["median"] > 0 for ratio in found["ssru"] + found["cnn(glu)"])
    table = layers_table(result)
    assert "| layer | training step, 2 x 5 | training step, 1 x 9 | beam step, 2 x 5 |" in table
    assert table in capsys.readouterr().out


def test_a_layer_of_another_width_is_refused(monkeypatch, capsys):
    assert benchmark(monkeypatch, "layers", "linear(8)", "--channels", 16) == 2
    assert "'linear(8)' has 8 channels, not 16." in capsys.readouterr().err
