"""Pervasive attention through fairseq's commands: training, translation, alignments, averaging."""

import pytest
import torch

from .commands import alignments, fairseq, generate, hypotheses, train

OURS = ("--task", "convs2s_translation")
TINY = (
    *("--arch", "pervasive_iwslt_de_en_max_attn", "--dropout", "0.0"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32"),
    *("--num-layers", "6", "--growth-rate", "16", "--kernel-size", "3"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
    *(*OURS, "--criterion", "convs2s_cross_entropy"),
)


@pytest.fixture(scope="module")
def learnt(corpus, tmp_path_factory):
    """The folder of a training that has learnt the tiny corpus's language."""
    folder = tmp_path_factory.mktemp("pervasive")
    log = train(corpus, folder, "--max-epoch", "20", options=TINY)
    print(log[-1500:])
    return folder
def test_x(learnt, corpus):
    c = learnt / "checkpoint_best.pt"
    p = generate(corpus, c, *OURS, "--print-alignment", "hard")
    print(p[-2000:])
    assert 0
