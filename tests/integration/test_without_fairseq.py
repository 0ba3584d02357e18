"""The commands on checkpoints of fairseq-train, without fairseq: on every Python, also 3.13."""

import json
import os
import subprocess
import sys

import pytest
import torch

from convs2s.translation.translator import Translator
from tests.support.translation import DATA, FIXTURES, LINES, MODELS, translate

EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))
# Imports of fairseq fail, as where it is not installed.
WITHOUT = """
import sys
for name in ("fairseq", "fairseq_cli", "omegaconf", "hydra", "convs2s_plugin"):
    sys.modules[name] = None
from convs2s.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_fairseq(*arguments, folder, code=0):
    """Run a command in an interpreter that has no fairseq; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done.stdout if code == 0 else done.stderr


def test_every_checkpoint_has_expectations():
    assert {path.stem for path in FIXTURES.glob("*.pt")} == set(EXPECTED)


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_is_plain_data_with_the_same_keys_and_shapes(name):
    weights = torch.load(FIXTURES / f"{name}.pt", weights_only=True)["model"]
    assert {key: list(weights[key].shape) for key in weights} == EXPECTED[name]["state_dict"]


@pytest.mark.parametrize("name", MODELS)
def test_translations_and_scores_are_those_of_fairseq(name):
    then = EXPECTED[name]["translations"]
    translator = Translator(FIXTURES / f"{name}.pt", data=DATA, alignment=True, device="cpu")
    for found, expected in zip(translator.translate(LINES), then, strict=True):
        assert found.text == expected["tokens"]
        assert found.score == pytest.approx(expected["score"], abs=1e-5)
        pairs = found.hypotheses[0].alignment
        assert " ".join(f"{s}-{t}" for s, t in pairs) == expected["alignment"]


def test_translate_in_an_interpreter_without_fairseq(tmp_path):
    expected = translate(FIXTURES / "convs2s.pt", LINES, tmp_path)
    arguments = ["--path", FIXTURES / "convs2s.pt", "--data", DATA, "--input", DATA / "test.de"]
    printed = without_fairseq("translate", *arguments, folder=tmp_path)
    assert printed.splitlines() == expected


def test_other_commands_in_an_interpreter_without_fairseq(tmp_path):
    model, inputs = FIXTURES / "adl.pt", ["--data", DATA]
    without_fairseq(
        "plot-attention", "--path", model, *inputs, "--output", "a.json", LINES[0], folder=tmp_path
    )
    assert json.loads((tmp_path / "a.json").read_text())["sentences"][0]["maps"]
    text = ["--source", DATA / "test.de", "--references", DATA / "test.en"]
    assert "BLEU" in without_fairseq("evaluate", model, *text, *inputs, folder=tmp_path)
    files = ["--input", DATA / "test.de", "--target-input", DATA / "test.en"]
    scores = without_fairseq("score", "--path", model, *inputs, *files, folder=tmp_path)
    assert len(scores.splitlines()) == len(LINES)
    without_fairseq("average", "--inputs", model, model, "--output", "b.pt", folder=tmp_path)
    quantized = without_fairseq("quantize", FIXTURES / "convs2s.pt", "c.pt", folder=tmp_path)
    assert quantized.startswith("c.pt: weights of ")
    printed = without_fairseq("flops", "--arch", "adl_transformer", folder=tmp_path)
    assert "adl_transformer" in printed


def test_models_of_fairseq_are_refused_in_a_sentence(tmp_path):
    checkpoint = torch.load(FIXTURES / "convs2s.pt", weights_only=True)
    checkpoint["cfg"]["model"]["_name"] = "transformer_iwslt_de_en"
    torch.save(checkpoint, tmp_path / "model.pt")
    arguments = ["--path", tmp_path / "model.pt", "--data", DATA, "--input", DATA / "test.de"]
    said = without_fairseq("translate", *arguments, folder=tmp_path, code=2)
    assert "has a model of --arch transformer_iwslt_de_en" in said and "Traceback" not in said


def test_ensembles_of_families(tmp_path):
    paths = [FIXTURES / f"{name}.pt" for name in ("adl", "convs2s", "pervasive")]
    assert len(translate(paths, LINES, tmp_path)) == len(LINES)
