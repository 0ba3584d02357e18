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
    one = text_file(tmp_path, LINES[:1], "one")
    sizes = ("--buffers", 2, 100, "--rounds", 1)
    assert benchmark(monkeypatch, "translate", *arguments, one, *sizes, "--json", target) == 0
    printed = capsys.readouterr().out
    result = json.loads(target.read_text(encoding="utf-8"))
    assert [each["lines"] for each in result["commands"]] == [len(LINES), 1]
    for each in result["commands"]:
        assert each["different"] == 0
        seconds = each["buffers"]
        assert set(seconds) == {"2", "100"}
        best = min(seconds, key=seconds.__getitem__)
        ours = ["convs2s translate", "OMP_NUM_THREADS=1 convs2s translate"]
        names = [f"fairseq-interactive --buffer-size {best}", *ours]
        assert list(each["seconds"]) == names and list(each["times_as_fast"]) == ours
        for name in names:
            assert f"| {each['lines']} | `{name}` | " in printed
    table = pages.results_table(target)
    assert table.startswith(printed.rstrip()) and "\nMeasured on " in table


def test_different_translations_are_counted(tmp_path):
    expected = ["a", "b c", ""]
    assert translate._count_different(text_file(tmp_path, ["a", "c b", ""]), expected) == 1
    measured = {"lines": 3, "different": 1, "seconds": {}, "times_as_fast": {}}
    table = report.commands_table({"beam": 5, "commands": [measured, measured]})
    assert table.endswith("Beam 5; different translations: 2.")


def test_errors(arguments, tmp_path, monkeypatch, capsys):
    data, checkpoint, lines = arguments
    assert benchmark(monkeypatch, "translate", data, "none.pt", lines) == 2
    assert "There is no file or folder none.pt." in capsys.readouterr().err
    empty = text_file(tmp_path, [], "empty")
    assert benchmark(monkeypatch, "translate", data, checkpoint, empty) == 2
    assert "empty has no lines." in capsys.readouterr().err
    assert benchmark(monkeypatch, "translate", data, empty, lines) == 2
    assert "fairseq-interactive failed with exit code" in capsys.readouterr().err
