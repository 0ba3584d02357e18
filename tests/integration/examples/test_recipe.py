"""examples/recipe: printed commands, logs, and failures."""

import sys

import pytest
from recipe import Recipe

from tests.support.commands import TINY, hypotheses, server


@pytest.fixture
def recipe(tmp_path):
    return Recipe(tmp_path / "out")


def python(code):
    return [sys.executable, "-c", code]


def test_command_is_printed_and_logged(recipe, capsys):
    seen = []
    recipe.run("hello", python("print('hello')"), watch=seen.append)
    assert "print('\"'\"'hello'\"'\"')" in capsys.readouterr().out
    assert seen == ["hello\n"]
    assert (recipe.logs / "hello.log").read_text() == "hello\n"


def test_redirection(recipe, tmp_path, capsys):
    (tmp_path / "in").write_text("words")
    copy = "import sys; sys.stdout.write(sys.stdin.read()); print('note', file=sys.stderr)"
    recipe.run("copy", python(copy), stdin=tmp_path / "in", stdout=tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "words"
    assert (recipe.logs / "copy.log").read_text() == "note\n"
    assert f"< {tmp_path / 'in'} > {tmp_path / 'copy'}" in capsys.readouterr().out


def test_failing_command_ends_the_recipe(recipe, capsys):
    with pytest.raises(SystemExit, match=r"failed with exit code 3; its log is .*wrong\.log"):
        recipe.run("wrong", python("import sys; print('the reason'); sys.exit(3)"))
    assert "the reason" in capsys.readouterr().out


def test_missing_program(recipe):
    with pytest.raises(SystemExit, match="There is no program nothing-of-that-name"):
        recipe.run("missing", ["nothing-of-that-name"])


def test_binarize_train_and_generate(corpus, recipe, capsys, monkeypatch):
    # Programs are searched next to the interpreter.
    monkeypatch.setattr(sys, "executable", str(server().programs / "python"))
    recipe.binarize(corpus, ("de", "en"), merges=20)
    recipe.train("a model", 12, list(TINY))
    output = recipe.out / "out"
    recipe.generate(recipe.out / "checkpoints" / "checkpoint_last.pt", "test", output)
    assert sorted(hypotheses(output.read_text(encoding="utf-8"))) == list(range(24))
    printed = capsys.readouterr().out
    assert "Training a model" in printed
    assert "epoch 1 done: validation loss" in printed and "$ " in printed


def test_only_a_recipes_folder_is_emptied(tmp_path):
    out = tmp_path / "out"
    (Recipe(out).out / "old").touch()
    assert not (Recipe(out).out / "old").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(SystemExit, match="holds other files"):
        Recipe(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.tex").exists()
