"""The commands ``growth`` and ``speed``."""

import json
import re
import shutil

import pytest

from benchmarks import growth, growth_report, pages
from benchmarks.setting import Setting
from tests.support.benchmark_runs import benchmark
from tests.support.commands import generate


def points(power, sizes=(10, 20, 40, 80)):
    return [{"size": n, "seconds": {"minimum": 5e-4 * n**power + 3e-9}} for n in sizes]


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_exponent_of_a_power(power):
    assert growth.exponent(points(power)) == pytest.approx(power, abs=1e-3)


def test_exponent_ignores_the_lower_half():
    curve = points(2.0)
    curve[0]["seconds"]["minimum"] = curve[1]["seconds"]["minimum"] = 100.0
    assert growth.exponent(curve) == pytest.approx(2.0, abs=1e-3)
    assert growth.exponent(curve[:1]) is None


@pytest.mark.slow
def test_report(tmp_path, monkeypatch, capsys):
    sizes = {"words": 60, "sentences": 1, "length": 4, "layers": 1}
    families = {
        "ConvS2S": Setting("convs2s_iwslt_de_en", **sizes),
        "pervasive attention": Setting("pervasive", **sizes),
    }
    monkeypatch.setattr(growth, "FAMILIES", families)
    monkeypatch.setattr(growth, "AXES", {"length": (3, 6, 9), "sentences": (1, 2)})
    monkeypatch.setattr(growth, "MAX_SECONDS", 0.0)
    assert benchmark(monkeypatch, "growth", "--out", tmp_path) == 0
    curves = json.loads((tmp_path / "growth.json").read_text(encoding="utf-8"))["curves"]
    assert curves.keys() == families.keys()
    for work in ("train", "generate"):
        assert [point["size"] for point in curves["ConvS2S"][work]["length"]] == [3, 6, 9]
        cells = [point["size"] for point in curves["pervasive attention"][work]["cells"]]
        assert cells == [9, 16, 32, 36, 81] and "cells" not in curves["ConvS2S"][work]
    shown = capsys.readouterr().out
    assert "| ConvS2S | training step | sentence length (tokens) | 3 to 9 |" in shown
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_page_matches_its_measurements():
    page = (pages.DOCS / "results.md").read_text(encoding="utf-8")
    result = json.loads(growth_report.json_path(pages.DOCS).read_text(encoding="utf-8"))
    assert growth_report.table(result) in page


def test_a_curve_ends_when_a_point_takes_too_long(monkeypatch):
    monkeypatch.setattr(growth, "LONGEST", 0.0)
    setting = Setting("convs2s_iwslt_de_en", words=60, sentences=1, length=3, layers=1)
    curves = growth.measure({"one": setting}, {"length": (3, 6)})
    assert [len(curves["one"][work]["length"]) for work in ("train", "generate")] == [1, 1]


def test_sentences_per_second_of_a_checkpoint(corpus, trained, tmp_path, monkeypatch, capsys):
    target = tmp_path / "speed.json"
    given = (corpus / "bin", trained / "checkpoint_last.pt", "--rounds", 2, "--max-tokens", 90)
    assert benchmark(monkeypatch, "speed", *given, "--json", target) == 0
    assert "| sentences/s |" in capsys.readouterr().out
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["sentences"] == 24 and len(result["sentences_per_second"]) == 2
    assert all(rate["minimum"] > 0 for rate in result["sentences_per_second"].values())
    assert all(rate["minimum"] > 0 for rate in result["tokens_per_second"].values())


@pytest.mark.parametrize("has_other_dictionaries", [False, True])
def test_bleu_of_a_speed(has_other_dictionaries, corpus, trained, tmp_path, monkeypatch):
    """It is that of fairseq-generate."""
    target = tmp_path / "speed.json"
    checkpoint = trained / "checkpoint_last.pt"
    data, model = corpus / "bin", checkpoint
    if has_other_dictionaries:
        data, model = tmp_path / "bin", f"{data}={checkpoint}"
        shutil.copytree(corpus / "bin", data)
        words = (data / "dict.de.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        (data / "dict.de.txt").write_text("".join(words[::-1]), encoding="utf-8")
    given = (data, model, "--rounds", 1, "--json", target)
    assert benchmark(monkeypatch, "speed", *given) == 0
    printed = generate(corpus, checkpoint, "--beam", 5, "--remove-bpe")
    expected = re.search(r"BLEU4 = ([\d.]+)", printed)[1]
    found = json.loads(target.read_text(encoding="utf-8"))["bleu"]
    assert found[f"{checkpoint}, beam 5"] == pytest.approx(float(expected), abs=0.006)


def test_a_folder_that_is_no_model(corpus, tmp_path, monkeypatch, capsys):
    pytest.importorskip("ctranslate2", reason="the extra export is not installed")
    assert benchmark(monkeypatch, "speed", corpus / "bin", tmp_path) == 2
    assert "not a folder that a converter of CTranslate2" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing.pt", "broken.pt"])
def test_unusable_checkpoint(name, corpus, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.pt").write_bytes(b"no checkpoint")
    assert benchmark(monkeypatch, "speed", corpus / "bin", tmp_path / name) == 2
    assert name in capsys.readouterr().err
