"""Experiments with programs that take the place of fairseq's (see fake_programs.py)."""

import argparse
import gzip
import shutil
import sys
from pathlib import Path

import pytest

from convs2s.cli import experiment as command
from convs2s.experiments import results, run, workflow
from convs2s.experiments.commands import Machine
from convs2s.text import workflow as workflow_of_text

from .words import FILE


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """The programs next to the interpreter are fakes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = Path(__file__).with_name("fake_programs.py").read_text(encoding="utf-8")
    for name in ("fairseq-train", "fairseq-generate", "convs2s"):
        (folder / name).write_text(f"#!{sys.executable} -IS\n{fake}", encoding="utf-8")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(workflow_of_text, "prepare_tokens", prepare_tokens)
    monkeypatch.setattr(results, "vocabulary_parameters", vocabulary_parameters)
    monkeypatch.setattr(run, "saved_checkpoints", saved_checkpoints)
    # tests/integration/test_experiment.py has the checks of options.
    monkeypatch.setattr(workflow, "missing_fairseq", lambda: None)
    monkeypatch.setattr(workflow, "check_options", lambda *_: None)
    monkeypatch.setattr(
        workflow, "find_machine", lambda jobs, *_: Machine("no device", ("--cpu",), ({},) * jobs)
    )


def prepare_tokens(text, languages, tests, out, merges, joined):
    """Copy the validation and test sets, as the fakes read them."""
    folder = out / "data-bin"
    folder.mkdir()
    for number, name in enumerate(["valid", *tests]):
        subset = "valid" if name == "valid" else f"test{number - 1 or ''}"
        for side, language in zip(("source", "target"), languages):
            shutil.copy(text / f"{name}.{language}", folder / f"{subset}.{side}")


def vocabulary_parameters(checkpoint):
    """The parameters of the vocabulary in a checkpoint of the fakes."""
    assert checkpoint.exists()
    return 300


def saved_checkpoints(folder):
    """The updates of the checkpoints of the fakes."""
    return {path.name: int(path.read_text()) for path in folder.glob("checkpoint*.pt")}


@pytest.fixture
def folder(tmp_path, monkeypatch, programs):
    """The current folder, with an experiment and text."""
    text = tmp_path / "text"
    text.mkdir()
    for language in ("de", "en"):
        lines = [f"this is sentence {number} in {language} .\n" for number in range(3)]
        for name in ("train", "val", "test_1", "test_2.tok"):
            (text / f"{name}.{language}").write_text("".join(lines))
        (text / f"train.{language}").unlink()
        (text / f"train.lc.{language}.gz").write_bytes(gzip.compress("".join(lines).encode()))
    (tmp_path / "words.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder, capsys):
    """Runs the command and returns its exit code and standard output."""

    def start(*arguments):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        code = command.run(parser.parse_args(["words.yaml", *map(str, arguments)]))
        return code, capsys.readouterr().out

    return start
