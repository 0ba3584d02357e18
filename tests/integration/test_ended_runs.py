"""A training run that has ended, or was interrupted, ends where it would have ended."""

import re

import pytest

from convs2s.checkpoints.files import num_updates
from tests.support.commands import TINY, assert_same_weights, train, weights


def test_a_run_that_has_all_its_updates_makes_no_more(corpus, tmp_path):
    """It was killed after its last checkpoint, before its end."""
    options = ("--max-update", "3", "--no-epoch-checkpoints")
    train(corpus, tmp_path, *options)
    before = weights(tmp_path / "checkpoint_last.pt")
    log = train(corpus, tmp_path, *options)
    assert "had already ended: num_updates: 3 >= max_update: 3" in log and "done training" in log
    assert num_updates(str(tmp_path / "checkpoint_last.pt")) == 3
    after = weights(tmp_path / "checkpoint_last.pt")
    assert all(after[name].equal(before[name]) for name in before)
    # More updates are made.
    train(corpus, tmp_path, "--max-update", "4", "--no-epoch-checkpoints")
    assert num_updates(str(tmp_path / "checkpoint_last.pt")) == 4


def test_patience_goes_on(corpus, tmp_path):
    """Without a learning rate no validation is better than the first; fairseq counts anew."""
    options = (*TINY[: TINY.index("--lr")], "--lr", "0", *TINY[TINY.index("--lr") + 2 :])
    options = (*options, "--patience", "2", "--dropout", "0")
    log = train(corpus, tmp_path / "whole", "--max-epoch", "9", options=options)
    assert "early stop" in log
    train(corpus, tmp_path / "parts", "--max-epoch", "2", options=options)
    train(corpus, tmp_path / "parts", "--max-epoch", "9", options=options)
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == names
    assert "checkpoint3.pt" in names and "checkpoint4.pt" not in names
    last = [tmp_path / folder / "checkpoint_last.pt" for folder in ("whole", "parts")]
    assert num_updates(str(last[0])) == num_updates(str(last[1]))
    assert_same_weights(*last, atol=0, rtol=0)
    # Killed after its last checkpoint, it ends at once.
    log = train(corpus, tmp_path / "parts", "--max-epoch", "9", options=options)
    assert "had already ended: 2 validations without an improvement >= patience: 2" in log


@pytest.mark.parametrize(
    ("patience", "expected"),
    [("0", [0.01, 0.01, 0.005, 0.0025]), ("1", [0.01, 0.01, 0.01, 0.005])],
)
def test_a_plateau_goes_on(patience, expected, corpus, tmp_path):
    """No validation is better than the first; fairseq forgets that of the last epoch."""
    options = (*TINY, "--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", "0.5")
    options = (*options, "--lr-threshold", "0.9", "--lr-patience", patience)
    rates = []
    for epochs in ("2", "3", "4"):
        log = train(corpus, tmp_path, "--max-epoch", epochs, options=options)
        rates += [float(rate) for rate in re.findall(r"train \| epoch .*\| lr ([\d.e-]+)", log)]
    assert rates == expected
