"""examples/adl/run.py on the tiny corpus."""

import json
import sys

import pytest

HYBRID = ["--hybrid", "mine", "pos -> res_nd(cnn(glu)) -> birnn", "rnn -> res(mlp_att)"]


@pytest.fixture
def recipe(load, monkeypatch):
    """The module of the recipe."""
    module = load("adl/run.py")
    monkeypatch.setattr(module, "BPE_MERGES", 20)
    return module


def test_from_text_to_a_table(recipe, raw_dir, quick_programs, monkeypatch, capsys):
    def start(*options):
        common = ["--raw-dir", str(raw_dir), "--out", str(raw_dir / "out"), "--updates", "21"]
        arguments = ["run.py", *common, "--model-dim", "16", *options]
        monkeypatch.setattr(sys, "argv", arguments)
        recipe.main()
        return capsys.readouterr().out

    printed = start("--arch", "adl_self_att_none", "--seeds", "1")
    lines = [line for line in printed.splitlines() if line.startswith("| `")]
    assert len(lines) == 1 and lines[0].startswith("| `adl_self_att_none` | ")
    result = json.loads(
        (raw_dir / "out" / "runs" / "adl_self_att_none.1" / "result.json").read_text()
    )
    assert result["tokens_per_second"] > 0 and result["sentences_per_second"] > 0

    printed = start("--arch", "adl_self_att_none", "--seeds", "1", *HYBRID)
    assert "adl_self_att_none.1 has been trained already." in printed
    assert "| `mine` | " in (raw_dir / "out" / "table.md").read_text()

    with pytest.raises(SystemExit, match="another --updates or --model-dim"):
        start("--model-dim", "32")


def test_table_has_means_and_begins_with_the_best_model(recipe):
    def result(model, seed, bleu):
        speeds = {"tokens_per_second": 100.0 * seed, "sentences_per_second": 2.0}
        return {"model": model, "seed": seed, "parameters": 1234567, "bleu": bleu, **speeds}

    results = [result("a", 2, 11.0), result("b", 1, 12.5), result("a", 1, 10.0)]
    text = recipe.table(results, "bleu", recipe.COLUMNS)
    assert text.splitlines()[2:] == [
        "| `b` | 1,234,567 | 12.50 | 12.50 | 100 | 2.0 |",
        "| `a` | 1,234,567 | 10.50 | 10.00, 11.00 | 200 | 2.0 |",
    ]
