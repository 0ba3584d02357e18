"""fairseq's --store-ema with the models of this package, and convs2s average --ema."""

import pytest
import torch

from convs2s.checkpoints.files import load_checkpoint
from convs2s.cli import main as convs2s
from tests.support.commands import CRITERION, TASK, assert_same_weights, generate, train, weights
from tests.support.faults import FAMILIES

DECAY = 0.7
OPTIONS = (
    *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--dropout", "0.2"),
    *("--store-ema", "--ema-decay", str(DECAY), *TASK, *CRITERION),
)


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, corpus, tmp_path_factory):
    """A training of six updates, and its checkpoint after each."""
    folder = tmp_path_factory.mktemp(request.param)
    options = (*FAMILIES[request.param], *OPTIONS)
    train(corpus, folder, "--max-update", "6", "--save-interval-updates", "1", options=options)
    return request.param, folder, options


def ema(path):
    return load_checkpoint(str(path))["extra_state"]["ema"]


def test_they_average_the_weights_of_the_updates(trained):
    _, folder, _ = trained
    paths = {int(path.stem.split("_")[2]): path for path in folder.glob("checkpoint_*_*.pt")}
    pairs = [(paths[n], paths[n + 1]) for n in paths if n + 1 in paths]
    assert len(pairs) >= 3
    for before, after in pairs:
        step, averages = weights(after), ema(before)
        for name, value in ema(after).items():
            expected = DECAY * averages[name] + (1 - DECAY) * step[name]
            assert value.allclose(expected, rtol=1e-4, atol=1e-6), name


def test_a_training_goes_on_exactly(trained, corpus, tmp_path):
    _, folder, options = trained
    for number in ("3", "6"):
        train(corpus, tmp_path, "--max-update", number, options=options)
    last, whole = tmp_path / "checkpoint_last.pt", folder / "checkpoint_last.pt"
    assert_same_weights(whole, last, atol=0, rtol=0)
    expected = ema(whole)
    assert all(value.equal(expected[name]) for name, value in ema(last).items())


def test_a_training_goes_on_between_two_averages(corpus, tmp_path):
    options = (*FAMILIES["convs2s"], *OPTIONS, "--ema-update-freq", "2")
    for folder, numbers in (("whole", ["6"]), ("continued", ["3", "6"])):
        for number in numbers:
            train(corpus, tmp_path / folder, "--max-update", number, options=options)
    expected = ema(tmp_path / "whole" / "checkpoint_last.pt")
    found = ema(tmp_path / "continued" / "checkpoint_last.pt")
    assert all(value.equal(expected[name]) for name, value in found.items())


def test_an_average_of_weights_has_none(trained, tmp_path, capsys):
    path = str(tmp_path / "average.pt")
    assert convs2s(["average", str(trained[1] / "checkpoint_last.pt"), "-o", path]) == 0
    assert convs2s(["average", "--ema", path, "-o", str(tmp_path / "ema.pt")]) == 2
    assert "--store-ema" in capsys.readouterr().err


def test_the_average_translates(trained, corpus, tmp_path, capsys):
    family, folder, _ = trained
    path = tmp_path / "ema.pt"
    assert convs2s(["average", "--ema", str(folder / "checkpoint_last.pt"), "-o", str(path)]) == 0
    expected = ema(folder / "checkpoint_last.pt")
    assert all(value.equal(expected[name]) for name, value in weights(path).items())
    assert "ema" not in load_checkpoint(str(path))["extra_state"]
    assert generate(corpus, path)


def test_checkpoints_without_them_are_refused(corpus, tmp_path, capsys):
    options = (*FAMILIES["convs2s"], *TASK, *CRITERION, "--optimizer", "sgd", "--lr", "0.1")
    train(corpus, tmp_path, "--max-update", "1", "--max-tokens", "400", options=options)
    last = str(tmp_path / "checkpoint_last.pt")
    assert convs2s(["average", "--ema", last, "-o", str(tmp_path / "ema.pt")]) == 2
    assert "--store-ema" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "--store-ema"),
        ({"ema": {"a": 1}}, "its weight a is not a tensor"),
        ({"ema": {"a": torch.tensor([float("nan")])}}, "its weight a has NaN"),
    ],
)
def test_averages_that_are_none_are_refused(state, message, tmp_path, capsys):
    path = tmp_path / "model.pt"
    torch.save({"model": {"a": torch.ones(1)}, "extra_state": state}, path)
    assert convs2s(["average", "--ema", str(path), "-o", str(tmp_path / "ema.pt")]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "ema.pt").exists()
