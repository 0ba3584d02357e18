"""examples/recipe: printed commands, logs, and failures."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from recipe import Recipe

from tests import ROOT
from tests.integration.examples.conftest import EXAMPLES
from tests.support.commands import TINY, server

# Runs a command that writes its number to a file and sleeps.
WAITING = """
import sys
from pathlib import Path
from recipe import Recipe
code = "import os, time; open('pid.new', 'w').write(str(os.getpid())); "
code += "os.rename('pid.new', 'pid'); time.sleep(600)"
Recipe(Path("out")).run("wait", [sys.executable, "-c", code])
"""


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


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_running_command(number, code, tmp_path):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{EXAMPLES}"}
    recipe = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "pid").exists() and recipe.poll() is None:
        time.sleep(0.05)
    started = int((tmp_path / "pid").read_text())
    try:
        recipe.send_signal(number)
        _, error = recipe.communicate(timeout=60)
        assert (recipe.returncode, error) == (code, "")
        assert not psutil.pid_exists(started)
    finally:
        if psutil.pid_exists(started):
            os.kill(started, signal.SIGKILL)


def test_the_current_folder_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        recipe = Recipe(tmp_path)
        (tmp_path / "link").symlink_to("nowhere")
        recipe.run("hello", python("print('hello')"))
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "link"}
    assert (tmp_path / "logs" / "hello.log").read_text() == "hello\n"


@pytest.mark.parametrize("out", ["file", "file/out"])
def test_a_folder_that_cannot_be_made(out, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=f"{out} cannot be written: .* Give --out another folder"):
        Recipe(tmp_path / out)
