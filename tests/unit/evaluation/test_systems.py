"""Which files are systems."""

import pytest

from convs2s.common.errors import UserError
from convs2s.evaluation.systems import (
    System,
    parse_system,
    parse_systems,
    read_matching,
    read_references,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("a.txt", "b.txt", "x=y.txt", "run/best.pt", "run/last.pt"):
        (tmp_path / name).write_text("one\ntwo\n")
    return tmp_path


@pytest.mark.parametrize(
    "text, system",
    [
        ("a.txt", System("a.txt", file="a.txt")),
        ("mine=a.txt", System("mine", file="a.txt")),
        ("x=y.txt", System("x=y.txt", file="x=y.txt")),
        ("run/best.pt", System("run/best.pt", ("run/best.pt",))),
        ("two=run/best.pt:run/last.pt", System("two", ("run/best.pt", "run/last.pt"))),
    ],
)
def test_systems(text, system, folder):
    assert parse_system(text) == system


def test_a_folder_gives_its_own_name(folder):
    (folder / "run/checkpoints").mkdir()
    (folder / "run/checkpoints/average.pt").touch()
    (folder / "run/best.pt").rename(folder / "run/checkpoints/checkpoint_best.pt")
    system = parse_system("run")
    assert system.name == f"{folder.name}/run"
    assert system.checkpoints == ("run/checkpoints/average.pt",)


@pytest.mark.parametrize(
    "text, message",
    [
        ("c.txt", "There is no file c.txt"),
        ("mine=", "There is no file 'mine='"),
        ("run", "There is no checkpoint in run"),
        ("a.txt:b.txt", "not all are checkpoints"),
        ("run/best.pt:a.txt", "not all are checkpoints"),
    ],
)
def test_no_system(text, message, folder):
    with pytest.raises(UserError, match=message):
        parse_system(text)


def test_names_differ(folder):
    with pytest.raises(UserError, match="Two systems are called mine"):
        parse_systems(["mine=a.txt", "mine=b.txt"])


@pytest.mark.parametrize(
    "texts",
    [
        ["a.txt", "a.txt"],
        ["one=a.txt", "two=run/../a.txt"],
        ["run/best.pt:run/last.pt", "b.txt", "two=run/last.pt:run/best.pt"],
    ],
)
def test_files_differ(texts, folder):
    with pytest.raises(UserError, match=f"Two alignments are the same file: .* {texts[-1]}"):
        parse_systems(texts, "alignments")
    assert len(parse_systems(["run/best.pt", "run/last.pt", "x=run/best.pt:run/last.pt"])) == 3


def test_texts_have_the_same_number_of_lines(folder):
    (folder / "short").write_text("one")
    (folder / "empty").write_text("")
    assert read_matching("short", "a.txt", 1) == ["one"]
    with pytest.raises(UserError, match=r"short has 1 line\(s\), but a.txt has 2"):
        read_matching("short", "a.txt", 2)
    assert read_references(["a.txt", "b.txt"]) == [["one", "two"]] * 2
    with pytest.raises(UserError, match=r"short has 1 line\(s\), but a.txt has 2"):
        read_references(["a.txt", "short"])
    with pytest.raises(UserError, match=r"\./a\.txt is given twice \(--references\)"):
        read_references(["a.txt", "b.txt", "./a.txt"])
    with pytest.raises(UserError, match="empty has no lines"):
        read_references(["empty"])
