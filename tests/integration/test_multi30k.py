"""examples/multi30k/run.py on the tiny corpus, and its errors."""

import gzip
import importlib.util
import sys

import pytest

from tests import ROOT

FOLDER = ROOT / "examples" / "multi30k"


def load(monkeypatch, name):
    """A module of the recipe."""
    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location(f"multi30k_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recipe(monkeypatch):
    """The module of the recipe."""
    return load(monkeypatch, "run")


@pytest.fixture
def raw_dir(corpus, tmp_path):
    """The tiny corpus with the file names of the dataset."""
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test")):
        for language in ("de", "en"):
            text = (corpus / f"{split}.{language}").read_bytes()
            (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(text))
    return tmp_path


def start(recipe, monkeypatch, raw_dir):
    arguments = ["run.py", "--raw-dir", str(raw_dir), "--out", str(raw_dir / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    recipe.main()


def test_from_text_to_bleu(recipe, raw_dir, monkeypatch, capsys):
    monkeypatch.setattr(recipe, "UPDATES", 21)
    monkeypatch.setattr(recipe, "BPE_MERGES", 20)
    start(recipe, monkeypatch, raw_dir)
    printed = capsys.readouterr().out
    assert "BLEU on valid = " in printed and "BLEU on test = " in printed
    assert (raw_dir / "out" / "checkpoints" / "average.pt").exists()


def test_invalid_raw_dir(recipe, raw_dir, monkeypatch):
    (raw_dir / "train.en.gz").write_bytes(gzip.compress(b"one line"))
    with pytest.raises(SystemExit, match="train.de has 240 lines, but train.en has 1"):
        start(recipe, monkeypatch, raw_dir)
    (raw_dir / "train.en.gz").write_bytes(b"no gzip")
    with pytest.raises(SystemExit, match="train.en.gz is not gzipped"):
        start(recipe, monkeypatch, raw_dir)
    (raw_dir / "train.en.gz").unlink()
    with pytest.raises(SystemExit, match="There is no .*train.en.gz"):
        start(recipe, monkeypatch, raw_dir)
