"""The command ``translate``: ``convs2s translate`` beside ``fairseq-interactive``."""

import json
import shutil

import pytest

from benchmarks import pages, report, translate
from tests.support.benchmark_runs import benchmark
from tests.support.commands import server
from tests.support.translation import DATA, FIXTURES, LINES, text_file


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    """Data, a checkpoint and lines; the programs are forks of the server."""
    quick = {name: [str(server().programs / name)] for name in ("convs2s", "fairseq-interactive")}
    monkeypatch.setattr(translate, "find_program", quick.__getitem__)
    data = tmp_path / "data-bin"
    shutil.copytree(DATA, data)
    # The languages come from the name of a file.
    (data / "test.de-en.de.idx").touch()
    return data, FIXTURES / "convs2s.pt", text_file(tmp_path, LINES)


def test_both_commands_give_the_same_lines(arguments, tmp_path, monkeypatch, capsys):
    target = tmp_path / "translate.json"
    sizes = ("--buffers", 2, 100, "--workers", 1, 2, "--rounds", 1)
    assert benchmark(monkeypatch, "translate", *arguments, *sizes, "--json", target) == 0
    printed = capsys.readouterr().out
    result = json.loads(target.read_text(encoding="utf-8"))
    assert result["lines"] == len(LINES) and result["different"] == 0
    seconds = result["buffers"]
    assert set(seconds) == {"2", "100"}
    best = min(seconds, key=seconds.__getitem__)
    ours = [f"convs2s translate --workers {number}" for number in (1, 2)]
    names = [f"fairseq-interactive --buffer-size {best}", *ours]
    assert list(result["lines_per_second"]) == names and list(result["times_as_fast"]) == ours
    for name in names:
        assert f"| `{name}` | " in printed
    table = pages.results_table(target)
    assert table.startswith(printed.rstrip()) and "\nMeasured on " in table


def test_different_translations_are_counted(tmp_path):
    expected = ["a", "b c", ""]
    assert translate._count_different(text_file(tmp_path, ["a", "c b", ""]), expected) == 1
    table = report.commands_table(
        {"lines": 3, "beam": 5, "different": 1, "lines_per_second": {}, "times_as_fast": {}}
    )
    assert table.endswith("3 lines, beam 5; different translations: 1.")


def test_errors(arguments, tmp_path, monkeypatch, capsys):
    data, checkpoint, lines = arguments
    assert benchmark(monkeypatch, "translate", data, "none.pt", lines) == 2
    assert "There is no file or folder none.pt." in capsys.readouterr().err
    empty = text_file(tmp_path, [], "empty")
    assert benchmark(monkeypatch, "translate", data, checkpoint, empty) == 2
    assert "empty has no lines." in capsys.readouterr().err
    assert benchmark(monkeypatch, "translate", data, empty, lines) == 2
    assert "fairseq-interactive failed with exit code" in capsys.readouterr().err
