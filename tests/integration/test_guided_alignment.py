"""fairseq-train with alignments, for every family and both tasks."""

import re

import pytest

from tests.support.commands import TASK, TINY, fairseq, refused, run, train, train_arguments

GUIDED = (
    "--criterion",
    "label_smoothed_cross_entropy_with_alignment",
    "--load-alignments",
    "--alignment-lambda",
    "1.0",
    "--label-smoothing",
    "0.1",
)
OPTIMIZER = ("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--batch-size", "60")
ADL = ("--arch", "adl_transformer", "--model-dim", "16", "--attention-heads", "4")
PERVASIVE = (
    "--arch",
    "pervasive_iwslt_de_en",
    "--encoder-embed-dim",
    "12",
    "--num-layers",
    "2",
    "--decoder-embed-dim",
    "16",
    "--growth-rate",
    "4",
)


@pytest.fixture(scope="module")
def aligned(corpus, tmp_path_factory):
    """A corpus with alignments: the target is the source backwards."""
    folder = tmp_path_factory.mktemp("aligned")
    for split in ("train", "valid"):
        lines = []
        for line in (corpus / f"{split}.de").read_text(encoding="utf-8").splitlines():
            last = len(line.split()) - 1
            lines.append(" ".join(f"{number}-{last - number}" for number in range(last + 1)))
        (folder / f"{split}.align").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for language in ("de", "en"):
            (folder / f"{split}.{language}").symlink_to(corpus / f"{split}.{language}")
    fairseq(
        "preprocess",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--destdir",
        folder / "bin",
        "--trainpref",
        folder / "train",
        "--validpref",
        folder / "valid",
        "--align-suffix",
        "align",
    )
    return folder


def alignment_losses(log):
    """The alignment loss of each validation."""
    return [float(x) for x in re.findall(r"valid on .*? \| alignment_loss ([\d.]+)", log)]


@pytest.mark.parametrize(
    "options",
    [
        (*TINY, "--alignment-layer", "1"),
        (*TINY, *TASK, "--equal-length-batches"),
        (*ADL, *OPTIMIZER, "--alignment-layer", "2", "--alignment-heads", "1"),
        (*PERVASIVE, *OPTIMIZER, *TASK, "--max-cells", "3000"),
    ],
    ids=["convs2s", "convs2s-task", "adl", "pervasive"],
)
def test_the_alignment_loss_falls(aligned, tmp_path, options):
    log = train(aligned, tmp_path, *GUIDED, "--max-epoch", "5", options=options)
    losses = alignment_losses(log)
    assert len(losses) == 5 and losses[-1] < 0.9 * losses[0]


def test_a_model_without_attention_is_refused(aligned, tmp_path):
    adl = ("--arch", "adl", "--encoder-adl", "pos -> ffl", "--decoder-adl", "pos -> ffl")
    options = (*adl, "--model-dim", "16", *OPTIMIZER)
    done = run("train", *train_arguments(aligned, tmp_path, *GUIDED, options=options))
    assert "but this model has none" in refused(done)
