"""``convs2s evaluate --comet`` with a program in place of comet-score, as its page describes it."""

import json
import os
import sys

import pytest

from convs2s.cli import main
from convs2s.evaluation.comet import OFFLINE, PROGRAM

# Scores a translation with 1 if it is the reference, and otherwise with the length of its source.
PROGRAM_TEXT = """
import argparse, json, os, sys
parser = argparse.ArgumentParser()
for name in ("-s", "-t", "-r", "--model", "--to_json"):
    parser.add_argument(name, required=True)
parser.add_argument("--gpus", type=int, required=True)
parser.add_argument("--quiet", action="store_true")
args = parser.parse_args()
if os.path.getsize(args.model) == 0:
    sys.exit("Traceback\\nOSError: no encoder")
source, found, right = ([line.strip() for line in open(path)] for path in (args.s, args.t, args.r))
scores = [
    {"src": s, "mt": t, "ref": r, "COMET": 1.0 if t == r else len(s) / 100}
    for s, t, r in zip(source, found, right)
]
json.dump({"t": scores}, open(args.to_json, "w"))
json.dump(os.environ["HF_HUB_OFFLINE"], open(os.environ["ASKED"], "w"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with texts, a model, and the program in a folder of PATH."""
    monkeypatch.chdir(tmp_path)
    texts = {"src": ["one", "two two", ""], "hyp": ["a", "b\rb", "c"], "ref": ["a", "b", "d"]}
    for name, lines in texts.items():
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    (tmp_path / "wmt/checkpoints").mkdir(parents=True)
    (tmp_path / "wmt/hparams.yaml").touch()
    (tmp_path / "wmt/checkpoints/model.ckpt").write_text("weights")
    program = tmp_path / "bin" / PROGRAM
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{PROGRAM_TEXT}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.delenv(OFFLINE, raising=False)
    return tmp_path


COMMAND = ["evaluate", "hyp", "best=ref", "--references", "ref"]
MODEL = ["--comet", "wmt/checkpoints/model.ckpt"]


def test_scores(folder, capsys, monkeypatch):
    command = [*COMMAND, "--source", "src", *MODEL, "--output", "scores.json"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "COMET: comet-score, wmt" in printed
    hyp, best = json.loads((folder / "scores.json").read_text())["results"]
    assert hyp["scores"]["COMET"] == pytest.approx(100 * (1 + 0.07 + 0) / 3)
    assert best["scores"]["COMET"] == 100 and "BLEU" in best["scores"]
    # Nothing is downloaded unasked.
    assert json.loads((folder / "asked").read_text()) == "1"
    monkeypatch.setenv(OFFLINE, "0")
    assert main(command) == 0
    assert json.loads((folder / "asked").read_text()) == "0"


@pytest.mark.parametrize(
    "options, message",
    [
        (MODEL, "--comet wmt/checkpoints/model.ckpt needs the source text: give it with --source."),
        ([*MODEL, "--source", "src", "--references", "src"], "give --references once."),
        (["--source", "src", "--comet", "wmt/hparams.yaml"], "there is no file"),
        (["--source", "src", "--comet", "none.ckpt"], "none.ckpt"),
        (["--source", "src", "--comet", "wmt/checkpoints/other"], "whose name ends with .ckpt"),
    ],
)
def test_wrong_options(folder, capsys, options, message):
    (folder / "wmt/checkpoints/other").touch()
    assert main([*COMMAND, *options]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "asked").exists()


def test_a_program_that_fails(folder, capsys):
    (folder / "wmt/checkpoints/model.ckpt").write_text("")
    assert main([*COMMAND, "--source", "src", *MODEL]) == 2
    error = capsys.readouterr().err
    assert "comet-score failed: OSError: no encoder" in error and "HF_HUB_OFFLINE=0" in error


def test_comet_is_not_installed(folder, capsys):
    (folder / "bin" / PROGRAM).unlink()
    assert main([*COMMAND, "--source", "src", *MODEL]) == 2
    error = capsys.readouterr().err
    assert "--comet needs the program comet-score: run `pipx install unbabel-comet`" in error
