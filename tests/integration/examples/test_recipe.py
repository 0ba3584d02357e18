"""examples/recipe: printed commands, logs, and failures."""

import sys

import pytest
from recipe import Recipe

from tests.support.commands import TINY, server


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
    code = "import sys; sys.stdout.write('words'); print('note', file=sys.stderr)"
    recipe.run("write", python(code), stdout=tmp_path / "written")
    assert (tmp_path / "written").read_text() == "words"
    assert (recipe.logs / "write.log").read_text() == "note\n"
    assert f" > {tmp_path / 'written'}\n" in capsys.readouterr().out


def test_failing_command_ends_the_recipe(recipe, capsys):
    with pytest.raises(SystemExit, match=r"failed with exit code 3; its log is .*wrong\.log"):
        recipe.run("wrong", python("import sys; print('the reason'); sys.exit(3)"))
    assert "the reason" in capsys.readouterr().out


def test_missing_program(recipe):
    with pytest.raises(SystemExit, match="There is no program nothing-of-that-name"):
        recipe.run("missing", ["nothing-of-that-name"])


def test_prepare_train_translate_and_score(corpus, recipe, capsys, monkeypatch):
    # Programs are searched next to the interpreter.
    monkeypatch.setattr(sys, "executable", str(server().programs / "python"))
    texts = {
        split: [corpus / f"{split}.{language}" for language in ("de", "en")]
        for split in ("train", "valid", "test")
    }
    prepared = recipe.prepare(
        recipe.out / "prepared", texts, "--tokenizer", "none", "--bpe-size", 20
    ).folder
    recipe.train("a model", prepared, 12, list(TINY))
    output = recipe.out / "translation"
    source, reference = (prepared / "text" / f"test.{language}" for language in ("de", "en"))
    assert len(recipe.translate(prepared, source, output)) == 24
    assert 0 <= float(recipe.bleu(reference, output)) <= 100
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
