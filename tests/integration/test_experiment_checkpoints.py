"""The checkpoints that fairseq-train saves for the averages of ``convs2s experiment``."""

import pytest

from tests.support.commands import TINY, train

# The corpus has this number of batches, so every fourth update ends an epoch.
EPOCH = 4


@pytest.mark.parametrize("interval, last", [(EPOCH, 14), (EPOCH // 2, 14), (3, 24)])
def test_an_interval_may_end_with_an_epoch(corpus, tmp_path, interval, last):
    sentences = len((corpus / "train.de").read_text(encoding="utf-8").splitlines())
    without = ("--max-tokens", "--max-sentences", "--batch-size")
    options = [
        word
        for word, before in zip(TINY, ("", *TINY))
        if word not in without and before not in without
    ]
    options += ["--batch-size", -(-sentences // EPOCH), "--required-batch-size-multiple", 1]
    log = train(
        corpus,
        tmp_path,
        *("--max-update", last, "--save-interval-updates", interval),
        *("--keep-interval-updates", 3, "--no-epoch-checkpoints"),
        options=options,
    )
    assert f"(epoch {last // EPOCH} @ {last // EPOCH * EPOCH} updates" in log
    ended = range(interval, last + 1, interval)[-3:]
    expected = {f"checkpoint_{(number - 1) // EPOCH + 1}_{number}.pt" for number in ended}
    found = {path.name for path in tmp_path.glob("checkpoint*.pt")}
    assert found == expected | {"checkpoint_best.pt", "checkpoint_last.pt"}
