"""examples/multi30k/compare.py on the tiny corpus, and its errors."""

import json
import sys

import pytest
from recipe import find_program

from tests.commands import server

SMALL = ["adl_rnnsearch", "convs2s_iwslt_de_en"]


@pytest.fixture
def compare(load, monkeypatch):
    """The module of the comparison, with models that train quickly."""
    module = load("multi30k/compare.py")
    monkeypatch.setattr(module, "BPE_MERGES", 20)
    monkeypatch.setattr(
        module, "MODELS", {name: module.ModelSettings(1e-3, 0.1, name) for name in SMALL}
    )
    monkeypatch.setattr(module, "DEFAULT_MODELS", SMALL[:1])
    return module


@pytest.fixture
def start(compare, monkeypatch, capsys):
    """Runs the comparison with options and returns what it printed."""

    def run(out, *options):
        arguments = ["compare.py", "--out", out, "--updates", 21, "--max-tokens", 400, *options]
        monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
        compare.main()
        return capsys.readouterr().out

    return run


def test_from_text_to_a_table_and_resume(start, compare, raw_dir, quick_programs, monkeypatch):
    out = raw_dir / "out"
    log = out / "logs" / "train.adl_rnnsearch.1.log"

    def stopped(recipe, title, updates, *rest):
        train(recipe, title, updates - 1, *rest)
        log.write_text(log.read_text().replace("done training", "stopped"))
        sys.exit("stopped")

    train = compare.Recipe.train
    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="stopped"):
        patch.setattr(compare.Recipe, "train", stopped)
        start(out, "--raw-dir", raw_dir)
    printed = start(out, "--raw-dir", raw_dir)
    assert "Loaded checkpoint" in log.read_text() and "num_updates: 21" in log.read_text()
    assert [line[:18] for line in printed.splitlines() if line.startswith("| `")] == [
        "| `adl_rnnsearch` "
    ]
    (result,) = json.loads((out / "results.json").read_text())
    vocab_size = len((out / "data-bin" / "dict.en.txt").read_text().splitlines()) + 4
    # One shared matrix with 128 channels, and the bias of the output projection.
    difference = result["parameters"] - result["parameters_without_embeddings"]
    assert difference == vocab_size * 129
    assert result["training_minutes"] > 0 and result["tokens_per_second"] > 0
    assert result["bleu_valid"] >= 0 and result["sentences_per_second"] > 0
    assert [path.name for path in (out / "runs" / "adl_rnnsearch.1").glob("*.pt")] == ["average.pt"]

    # With binarized data, neither console scripts nor text are needed.
    monkeypatch.setattr("recipe.find_program", find_program)
    monkeypatch.setattr(sys, "executable", str(server().programs / "python"))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    printed = start(out, "--data-bin", out / "data-bin", "--jobs", 2, "--models", *SMALL)
    assert "adl_rnnsearch.1 has been trained already." in printed
    assert "-m fairseq_cli.train" in printed and "--lr 0.001" in printed
    results = json.loads((out / "results.json").read_text())
    assert [result["model"] for result in results] == SMALL
    assert (out / "table.md").read_text().count("| `") == 2

    with pytest.raises(SystemExit, match="have another --lr or --dropout: choose another"):
        start(out, "--lr", "adl_rnnsearch=0.1")


def test_errors(start, raw_dir, capsys):
    for options, message in (
        (["--lr", "fconv=1"], "there is no model fconv; choose adl_rnnsearch, convs2s_iwslt_de_en"),
        (["--updates", 10], "--updates at least 20, the interval"),
        (["--raw-dir", raw_dir, "--data-bin", raw_dir], "not allowed with"),
    ):
        with pytest.raises(SystemExit):
            start(raw_dir / "out", *options)
        assert message in capsys.readouterr().err
