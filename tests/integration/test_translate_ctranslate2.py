"""``convs2s translate --engine ctranslate2``: the translations that torch finds, or a refusal."""

import pytest

from convs2s.checkpoints.quantized import quantized
from convs2s.checkpoints.files import save_checkpoint
from convs2s.cli import main as convs2s
from convs2s.translation import Translator
from convs2s.translation import ctranslate2_engine
from tests.support.transformers import MODELS, write_checkpoint
from tests.support.translation import DATA, FIXTURES, LINES, translate

ENGINE = ("--engine", "ctranslate2")
installed = pytest.importorskip("ctranslate2", reason="the extra export is not installed")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    encoder, decoder, options = MODELS["pre-norm, shared"]
    path = tmp_path_factory.mktemp("transformer") / "model.pt"
    return write_checkpoint(path, encoder, decoder, **options)


def rows(lines):
    """The cells of lines with tabs, and scores as numbers."""
    return [
        [pytest.approx(float(cell), abs=2e-4) if "." in cell and cell[-1].isdigit() else cell for cell in line.split("\t")]
        for line in lines
    ]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--scores", "--beam", "1", "--min-len", "3"],
        ["--nbest", "3", "--lenpen", "0.6", "--workers", "2", "--batch-size", "3"],
        ["--nbest", "2", "--unnormalized", "--max-len-b", "4"],
    ],
    ids=" ".join,
)
def test_the_translations_of_torch(checkpoint, options, tmp_path):
    # One is split.
    lines = [*LINES, "", " ".join(LINES * 2)]
    expected = translate(checkpoint, lines, tmp_path, "--raw", *options)
    found = translate(checkpoint, lines, tmp_path, "--raw", *options, *ENGINE)
    assert rows(expected) == [
        [str(cell) if isinstance(cell, str) else cell for cell in row] for row in rows(found)
    ]
