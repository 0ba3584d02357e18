"""The demo's runner: what a reader sees of a command, and where the demo ends."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "demo"))

from runner import Demo, short  # noqa: E402


@pytest.fixture
def demo(tmp_path):
    (tmp_path / "logs").mkdir()
    return Demo(tmp_path)


def python(code):
    return [sys.executable, "-c", code]


def test_a_command_is_shown_and_logged(demo, capsys):
    seen = []
    demo.run("hello", python("print('hello')"), watch=seen.append)
    assert "print('\"'\"'hello'\"'\"')" in capsys.readouterr().out
    assert seen == ["hello\n"]
    assert (demo.logs / "hello.log").read_text() == "hello\n"


def test_a_command_reads_and_writes_files(demo, tmp_path, capsys):
    (tmp_path / "in").write_text("words")
    copy = "import sys; sys.stdout.write(sys.stdin.read()); print('note', file=sys.stderr)"
    demo.run("copy", python(copy), stdin=tmp_path / "in", stdout=tmp_path / "out")
    assert (tmp_path / "out").read_text() == "words"
    assert (demo.logs / "copy.log").read_text() == "note\n"
    assert f"< {tmp_path / 'in'} > {tmp_path / 'out'}" in capsys.readouterr().out


def test_a_failing_command_ends_the_demo(demo, capsys):
    with pytest.raises(SystemExit, match=r"failed with exit code 3; its log is .*wrong\.log"):
        demo.run("wrong", python("import sys; print('the reason'); sys.exit(3)"))
    assert "the reason" in capsys.readouterr().out


def test_a_missing_program_says_what_to_install(demo):
    with pytest.raises(SystemExit, match="There is no nothing-of-that-name here"):
        demo.run("missing", ["nothing-of-that-name"])


def test_paths_are_short_below_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short(tmp_path / "a" / "b") == "a/b"
    assert short("--option") == "--option"
