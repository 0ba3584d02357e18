"""examples/multi30k/run.py on the tiny corpus, and its errors."""

import gzip
import sys

import pytest


@pytest.fixture
def recipe(load):
    """The module of the recipe."""
    return load("multi30k/run.py")


def start(recipe, monkeypatch, raw_dir):
    arguments = ["run.py", "--raw-dir", str(raw_dir), "--out", str(raw_dir / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    recipe.main()


def test_from_text_to_bleu(recipe, raw_dir, quick_programs, monkeypatch, capsys):
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
