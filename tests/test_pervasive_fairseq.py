"""Pervasive attention through fairseq's commands: training, translation, alignments, averaging."""

import pytest

from convs2s_plugin.cli import main as convs2s

from .commands import alignments, generate, hypotheses, train

OURS = ("--task", "convs2s_translation")
TINY = (
    *("--arch", "pervasive_iwslt_de_en", "--dropout", "0.0"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32"),
    *("--num-layers", "6", "--growth-rate", "16", "--kernel-size", "3"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
    *(*OURS, "--criterion", "convs2s_cross_entropy"),
)


@pytest.fixture(scope="module")
def learnt(corpus, tmp_path_factory):
    """The folder of a training that learns to translate the tiny corpus."""
    folder = tmp_path_factory.mktemp("pervasive")
    train(corpus, folder, "--max-epoch", "14", "--keep-last-epochs", "3", options=TINY)
    return folder


def expected(corpus):
    """The translation of each test sentence: its words backwards, with another ending."""
    lines = (corpus / "test.de").read_text("utf-8").splitlines()
    return {i: [f"{word}-th" for word in reversed(line.split())] for i, line in enumerate(lines)}


@pytest.mark.parametrize("what", [(), ("--score-reference",), ("--autocast-dtype", "bfloat16")])
def test_translations_and_their_implicit_alignments(corpus, learnt, what):
    printed = generate(
        corpus, learnt / "checkpoint_best.pt", *OURS, *what, "--print-alignment", "hard"
    )
    found, pairs, truth = hypotheses(printed), alignments(printed), expected(corpus)
    right = [i for i in truth if found[i][0][1].split() == truth[i]]
    assert len(right) > 0.9 * len(truth)
    backwards = {
        i: " ".join(f"{len(truth[i]) - 1 - t}-{t}" for t in range(len(truth[i]))) for i in right
    }
    assert sum(pairs[i] == backwards[i] for i in right) > 0.7 * len(right)


def test_averaged_checkpoints_have_averaged_statistics(corpus, learnt, tmp_path):
    paths = [str(learnt / f"checkpoint{epoch}.pt") for epoch in (12, 13, 14)]
    target = str(tmp_path / "average.pt")
    assert convs2s(["average", "--inputs", *paths, "--output", target]) == 0
    found, truth = hypotheses(generate(corpus, target, *OURS)), expected(corpus)
    assert sum(found[i][0][1].split() == truth[i] for i in truth) > 0.9 * len(truth)
