"""Trainings that are killed while they save go on exactly: dropout, BatchNorm, candidates.

CONVS2S_KILLS is the number of kills in each family; ``make faults`` sets it to 50.
"""

import os
import random
import re

import pytest

from convs2s.cli import main as convs2s
from tests.support.commands import CRITERION, TASK, assert_same_weights
from tests.support.faults import FAMILIES, killed_while_saving, train, whole

KILLS = int(os.environ.get("CONVS2S_KILLS", "1"))
MANY = KILLS > 1
TRAINING = (
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
    *("--dropout", "0.3", "--max-epoch", "2", "--save-interval-updates", "3"),
    *("--keep-interval-updates", "1"),
)


@pytest.fixture(scope="module")
def lexicon(corpus, tmp_path_factory):
    """A lexicon of the corpus, for candidates."""
    folder = tmp_path_factory.mktemp("lexicon")
    lines = [line.split() for line in (corpus / "train.de").read_text("utf-8").splitlines()]
    links = (" ".join(f"{i}-{len(line) - 1 - i}" for i in range(len(line))) for line in lines)
    (folder / "links").write_text("".join(f"{line}\n" for line in links), encoding="utf-8")
    files = ("--source", corpus / "train.de", "--target", corpus / "train.en")
    more = ("--alignments", folder / "links", "--output", folder / "lexicon")
    assert convs2s(["lexicon", *map(str, (*files, *more))]) == 0
    return folder / "lexicon"


@pytest.mark.parametrize("family", FAMILIES if MANY else ["pervasive"])
def test_a_killed_training_continues_exactly(family, corpus, lexicon, tmp_path):
    options = (*FAMILIES[family], *TRAINING, *TASK, *CRITERION, "--lexicon", lexicon)
    reference = train(
        corpus, tmp_path / "whole", options=options, setup=killed_while_saving(number=0)
    )
    assert reference.returncode == 0, reference.stderr[-2000:]
    names = whole(tmp_path / "whole")
    moments = int(re.findall(r"moments: (\d+)", reference.stdout)[0])
    for seed in range(KILLS):
        folder = tmp_path / f"killed{seed}"
        number = random.Random(seed).randint(1, moments)
        done = train(corpus, folder, options=options, setup=killed_while_saving(number))
        assert done.returncode != 0 and "moments" not in done.stdout, number
        # What was being written when the process died has no name yet.
        for partial in folder.glob("*.partial"):
            partial.rename(tmp_path / "partial")
        whole(folder)
        done = train(corpus, folder, options=options)
        assert done.returncode == 0, done.stderr[-2000:]
        assert whole(folder) == names
        assert_same_weights(
            tmp_path / "whole" / "checkpoint_last.pt",
            folder / "checkpoint_last.pt",
            atol=0,
            rtol=0,
        )
