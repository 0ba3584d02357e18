"""The table: rows that fail are one line, others stay, README.md has what was measured."""

import json

import pytest

from benchmarks import readme, rows, table
from benchmarks.setting import Setting
from tests.benchmark_runs import benchmark

SIZES = {"words": 60, "sentences": 2, "length": 4, "layers": 1}


def tiny(arch, **options):
    return Setting(arch, **{**SIZES, **options})


@pytest.fixture
def tiny_rows(monkeypatch):
    """Three rows: one that is fast enough, one that fails, one that wants too much."""
    ours, peer = tiny("convs2s_iwslt_de_en"), tiny("fconv_iwslt_de_en")
    made = [
        rows.Row("train one", "train", ours, peer, 0.001),
        rows.Row("train two", "train", tiny("convs3s"), peer),
        rows.Row("generate three", "generate", ours, peer, 1e6),
    ]
    monkeypatch.setitem(rows.ROWS, "cpu", lambda: made)
    monkeypatch.setitem(table.ROUNDS, "cpu", 1)
    monkeypatch.setattr(readme, "README", None)
    return made


def results(folder):
    return json.loads((folder / "cpu.json").read_text(encoding="utf-8"))


def test_rows_are_kept_and_a_failure_is_one_line(tiny_rows, tmp_path, monkeypatch, capsys):
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "train one") == 0
    first = results(tmp_path)
    assert list(first) == ["train one"] and first["train one"]["seconds"]["ratio"]["median"] > 0
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "*t*[wr][oe]*") == 1
    printed = capsys.readouterr()
    assert "train two ... failed: UserError: There is no architecture convs3s" in printed.out
    assert "slower than wanted: train two, generate three" in printed.err
    later = results(tmp_path)
    assert list(later) == [row.name for row in tiny_rows]
    assert later["train one"] == first["train one"]
    lines = readme.table(later).splitlines()
    assert lines[2].startswith("| train `convs2s_iwslt_de_en`, 60 words, 2 x 4 | `fconv_iwslt")
    assert "failed: UserError" in lines[3] and lines[4].split(" | ")[3] == "1e+06"
    assert len({line.count(" | ") for line in lines[2:5]}) == 1
    assert lines[-1].startswith("Measured on ")
    later["train one"]["bytes"] = {"ours": 2**20, "peer": 3 * 2**20}
    lines = readme.table(later).splitlines()
    assert "peak memory" in lines[0] and lines[2].endswith("| 1 MiB, 3 MiB |")
    assert len({line.count("|") for line in lines[:5]}) == 1


def test_no_row_begins_when_the_time_is_up(tiny_rows, tmp_path, monkeypatch, capsys):
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--minutes", 0) == 1
    assert capsys.readouterr().out.count("left out, the time is up") == 3


def test_a_name_that_no_row_has(tiny_rows, monkeypatch, capsys):
    assert benchmark(monkeypatch, "table", "--rows", "nothing") == 2
    assert "No row is called nothing; there are 'train one'" in capsys.readouterr().err


@pytest.mark.parametrize("device", rows.ROWS)
def test_rows_have_names_of_their_own_and_sides_that_do_the_same(device):
    made = rows.ROWS[device]()
    assert len({row.name for row in made}) == len(made)
    for row in made:
        for field in ("words", "sentences", "length", "layers", "beam", "device", "data"):
            assert getattr(row.ours, field) == getattr(row.peer, field)
        assert row.ours.device == device and row.peer.candidates is None


def test_readme_has_what_was_measured():
    text = readme.README.read_text(encoding="utf-8")
    names = [match["name"] for match in readme.BLOCK.finditer(text)]
    assert names == [*(f"{device}.json" for device in rows.ROWS), "multi30k.json"]
    assert readme.updated(text) == text
    assert "sentences/s" in text[text.index("multi30k.json") :]


def test_the_block_of_a_readme_is_written_anew(tiny_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "RESULTS", tmp_path)
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    block = "<!-- table of benchmarks/results/{} -->\n{}<!-- end of table -->\n"
    readme.README.write_text(
        "before\n" + block.format("cpu.json", "old\n") + block.format("cuda.json", "old\n"),
        encoding="utf-8",
    )
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "train one") == 0
    body = readme.table(results(tmp_path)) + "\n"
    expected = "before\n" + block.format("cpu.json", body) + block.format("cuda.json", "")
    assert readme.README.read_text(encoding="utf-8") == expected
