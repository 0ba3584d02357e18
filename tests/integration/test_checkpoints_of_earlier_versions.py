"""Checkpoints of earlier versions load, and their translations and scores are unchanged."""

import io
import json
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import generate as generate_command

import convs2s_plugin
from tests import ROOT
from tests.support.commands import hypotheses

PLUGIN = Path(convs2s_plugin.__file__).resolve().parent
FIXTURES = ROOT / "tests" / "fixtures" / "old_checkpoints"
DATA = FIXTURES / "data"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text(encoding="utf-8"))

each_checkpoint = pytest.mark.parametrize("name", EXPECTED)


@pytest.fixture(scope="module")
def raw_data(tmp_path_factory):
    """The dictionaries and the test sentences, with the file names of fairseq's raw datasets."""
    folder = tmp_path_factory.mktemp("raw")
    for language in ("de", "en"):
        shutil.copy(DATA / f"dict.{language}.txt", folder)
        shutil.copy(DATA / f"test.{language}", folder / f"test.de-en.{language}")
    return folder


def generate(data, name, *arguments):
    """The output of fairseq-generate with beam 5 and a checkpoint of the fixtures."""
    args = options.parse_args_and_arch(
        options.get_generation_parser(),
        input_args=[
            *(str(data), "--dataset-impl", "raw", "--source-lang", "de", "--target-lang", "en"),
            *("--user-dir", str(PLUGIN), "--task", "convs2s_translation", "--cpu"),
            *("--path", str(FIXTURES / f"{name}.pt"), "--num-workers", "0"),
            *("--max-tokens", "200", "--beam", "5"),
            *arguments,
        ],
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        generate_command._main(convert_namespace_to_omegaconf(args), printed)
    return printed.getvalue()


def assert_translations_are_those_of_then(printed, name):
    expected = EXPECTED[name]["translations"]
    found = hypotheses(printed)
    assert sorted(found) == list(range(len(expected)))
    for number, then in enumerate(expected):
        ((score, tokens),) = found[number]
        assert tokens == then["tokens"]
        assert score == pytest.approx(then["score"], abs=1e-5)


@each_checkpoint
def test_the_model_has_the_same_keys_shapes_and_weights(name):
    path = str(FIXTURES / f"{name}.pt")
    (model,), _ = checkpoint_utils.load_model_ensemble([path], {"data": str(DATA)})
    tensors = model.state_dict()
    assert {key: list(tensors[key].shape) for key in tensors} == EXPECTED[name]["state_dict"]
    for key, weight in torch.load(path, weights_only=True)["model"].items():
        assert torch.equal(tensors[key], weight), key


@each_checkpoint
def test_translations_and_scores_are_unchanged(name, raw_data):
    assert_translations_are_those_of_then(generate(raw_data, name), name)


@each_checkpoint
def test_translations_with_alignments_are_unchanged(name, raw_data):
    printed = generate(raw_data, name, "--print-alignment", "hard")
    assert_translations_are_those_of_then(printed, name)
    found = dict(re.findall(r"^A-(\d+)\t(.*)$", printed, re.MULTILINE))
    expected = EXPECTED[name]["translations"]
    assert found == {str(number): then["alignment"] for number, then in enumerate(expected)}
