"""``convs2s convert-fconv``: converted checkpoints translate as before; no code in them is run."""

import os
import pickle
from argparse import Namespace

import pytest
import torch

from convs2s.checkpoints.legacy.fconv import convert_weights
from convs2s.cli import main as convs2s
from tests.integration.test_fairseq_generate import generate
from tests.support.commands import hypotheses, train
from tests.support.fconv import FCONV, load, make_old


def assert_translates_alike(corpus, old, new, *arguments):
    expected = hypotheses(generate(corpus, old, *arguments))
    actual = hypotheses(generate(corpus, new, *arguments))
    assert expected.keys() == actual.keys() and expected
    for number, best in expected.items():
        assert [words for _, words in best] == [words for _, words in actual[number]]
        for (their_score, _), (our_score, _) in zip(best, actual[number]):
            assert our_score == pytest.approx(their_score, abs=2e-4)


def test_the_same_translations_and_scores(corpus, fconv, tmp_path, capsys):
    new = tmp_path / "new.pt"
    assert convs2s(["convert-fconv", str(fconv), str(new)]) == 0
    assert "tensors" in capsys.readouterr().out
    assert_translates_alike(corpus, fconv, new, "--beam", 4, "--nbest", 2)
    assert_translates_alike(corpus, fconv, new, "--score-reference")
    assert load(new)["args"].max_source_positions == 1022


@pytest.mark.parametrize("legacy", [False, True])
def test_version_1_with_stray_keys(corpus, fconv, tmp_path, legacy):
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    make_old(fconv, old, version=1, stray=True, legacy=legacy)
    assert convs2s(["convert-fconv", str(old), str(new)]) == 0
    assert_translates_alike(corpus, fconv, new)


class Hostile:
    """Creates a file when it is unpickled with the module pickle."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("legacy", [False, True])
def test_nothing_in_the_old_file_is_executed(fconv, tmp_path, legacy):
    old, new, mark = tmp_path / "old.pt", tmp_path / "new.pt", tmp_path / "executed"
    checkpoint = load(fconv)
    checkpoint["extra_state"]["meters"] = Hostile(mark)
    torch.save(checkpoint, old, _use_new_zipfile_serialization=not legacy)
    assert convs2s(["convert-fconv", str(old), str(new)]) == 0
    assert not mark.exists()
    assert load(new)["model"].keys()
    with open(old, "rb") as file:
        torch.load(file, weights_only=False)
    assert mark.exists()


def test_objects_of_unknown_classes_are_ignored(corpus, fconv, tmp_path):
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    make_old(fconv, old, meters=True)
    with pytest.raises(pickle.UnpicklingError):
        load(old)
    assert convs2s(["convert-fconv", str(old), str(new)]) == 0
    assert load(new)["model"].keys()


def test_errors_for_other_files(trained, tmp_path, capsys):
    cut = tmp_path / "cut.pt"
    tensor, language_model = tmp_path / "tensor.pt", tmp_path / "lm.pt"
    torch.save(torch.zeros(2), tensor)
    torch.save({"args": Namespace(arch="fconv_lm"), "model": {}}, language_model)
    cut.write_bytes((trained / "checkpoint_last.pt").read_bytes()[:2000])
    for old, message in (
        (trained / "checkpoint_last.pt", "only translation models of fairseq's fconv can be"),
        (tmp_path / "missing.pt", "There is no file"),
        (cut, "is not a complete checkpoint"),
        (tensor, "--arch unknown"),
        (language_model, "--arch fconv_lm"),
    ):
        assert convs2s(["convert-fconv", str(old), str(tmp_path / "new.pt")]) == 2
        captured = capsys.readouterr()
        assert message in captured.err and "Traceback" not in captured.err
        assert not (tmp_path / "new.pt").exists()
    with pytest.raises(ValueError, match="'encoder.layers.0.fc.weight' is not a weight"):
        convert_weights({"encoder.layers.0.fc.weight": torch.zeros(1)})


def test_training_from_a_converted_checkpoint(corpus, fconv, tmp_path):
    new = tmp_path / "new.pt"
    assert convs2s(["convert-fconv", str(fconv), str(new)]) == 0
    options = tuple("convs2s" if item == "fconv_iwslt_de_en" else item for item in FCONV)
    log = train(
        corpus,
        tmp_path / "more",
        "--finetune-from-model",
        new,
        "--max-source-positions",
        "1022",
        "--max-target-positions",
        "1022",
        "--encoder-gradient-uses",
        "2",
        options=options,
    )
    assert "Loaded checkpoint" in log
    assert "loss" in log and (tmp_path / "more" / "checkpoint_last.pt").exists()


def test_no_partial_file_is_left_if_the_output_cannot_be_written(fconv, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    assert convs2s(["convert-fconv", str(fconv), str(tmp_path / "folder")]) == 2
    assert convs2s(["convert-fconv", str(fconv), str(tmp_path / "no" / "new.pt")]) == 2
    assert capsys.readouterr().err.count("cannot be written") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
