"""Training runs with SimCut and R-Drop, as a user starts them."""

import json

import pytest

from tests.support.commands import (
    CRITERION,
    TASK,
    assert_same_weights,
    refused,
    run,
    train,
    train_arguments,
)
from tests.support.faults import FAMILIES

TRAINING = (
    *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--dropout", "0.2"),
    *("--update-freq", "2", "--log-format", "json", "--log-interval", "1"),
)
METHODS = {"simcut": ("--simcut-weight", "3"), "rdrop": ("--rdrop-weight", "5")}


def logged(done):
    """The numbers of the updates."""
    lines = (line.partition("| train_inner | ")[2] for line in done.splitlines())
    return [json.loads(line) for line in lines if line]


@pytest.mark.parametrize("family, method", list(zip(FAMILIES, ("simcut", "rdrop", "simcut"))))
def test_a_training_goes_on_exactly(family, method, corpus, tmp_path):
    options = (*FAMILIES[family], *TRAINING, *TASK, *CRITERION, *METHODS[method])
    whole = train(corpus, tmp_path / "whole", "--max-epoch", "2", options=options)
    train(corpus, tmp_path / "parts", "--max-epoch", "1", options=options)
    train(corpus, tmp_path / "parts", "--max-epoch", "2", options=options)
    assert_same_weights(
        tmp_path / "whole" / "checkpoint_last.pt",
        tmp_path / "parts" / "checkpoint_last.pt",
        atol=0,
        rtol=0,
    )
    numbers = logged(whole)
    assert numbers and all(float(each["divergence"]) > 0 for each in numbers)


def test_candidates_and_bfloat16(corpus, tmp_path):
    lexicon = tmp_path / "lexicon"
    words = (corpus / "bin" / "dict.de.txt").read_text(encoding="utf-8").split()[::2]
    target = (corpus / "bin" / "dict.en.txt").read_text(encoding="utf-8").split()[::2]
    lexicon.write_text("".join(f"{word} {target[0]} 0.5\n" for word in words), encoding="utf-8")
    more = ("--lexicon", lexicon, "--autocast-dtype", "bfloat16", "--max-epoch", "1")
    options = (*FAMILIES["adl"], *TRAINING, *TASK, *CRITERION, *METHODS["simcut"])
    numbers = logged(train(corpus, tmp_path / "run", *more, options=options))
    assert numbers and all(float(each["candidates"]) > 0 for each in numbers)
    assert all(0 < float(each["divergence"]) < 5 for each in numbers)


@pytest.mark.parametrize(
    "options, words",
    [
        (("--simcut-weight", "-3"), "--simcut-weight is -3.0"),
        (("--simcut-weight", "3", "--rdrop-weight", "5"), "give one of them"),
    ],
)
def test_options_that_are_refused(options, words, corpus, tmp_path):
    base = (*FAMILIES["convs2s"], *TRAINING, *TASK, *CRITERION)
    done = run("train", *train_arguments(corpus, tmp_path, *options, options=base))
    assert words in refused(done)


def test_sequence_training_has_one_pass(corpus, tmp_path):
    options = (*FAMILIES["convs2s"], *TRAINING, *TASK, "--criterion", "convs2s_sequence_risk")
    done = run("train", *train_arguments(corpus, tmp_path, *METHODS["simcut"], options=options))
    assert done.returncode == 2 and "unrecognized arguments: --simcut-weight" in done.stderr
