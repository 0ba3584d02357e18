"""The family of docs/add_a_family.md, with fairseq's own commands."""

import re
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.commands import alignments, fairseq, hypotheses, validation_losses
from tests.support.doc_blocks import DOCS, blocks

PAGE = DOCS / "add_a_family.md"
FAMILY = ROOT / "tests" / "packages" / "bag_of_words"


def test_the_blocks_of_the_page_are_the_files():
    files = {Path(block.title).name: block.code for block in blocks(PAGE) if block.title}
    assert files == {path.name: path.read_text("utf-8") for path in FAMILY.glob("*.py")}


@pytest.fixture(scope="module")
def checkpoint(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bag-of-words")
    printed = fairseq(
        "train",
        *(corpus / "bin", "--user-dir", FAMILY, "--arch", "bag_of_words_small", "--cpu"),
        *("--task", "convs2s_translation", "--criterion", "convs2s_cross_entropy"),
        *("--optimizer", "adam", "--lr", "0.01", "--max-tokens", "400", "--max-epoch", "16"),
        *("--save-dir", folder, "--no-epoch-checkpoints", "--num-workers", "0"),
        *("--no-progress-bar", "--log-format", "simple"),
    )
    losses = validation_losses(printed)
    assert len(losses) == 16 and losses[-1] < 0.7 * losses[0]
    return folder / "checkpoint_last.pt"


def test_it_translates_with_alignments(corpus, checkpoint):
    printed = generate(corpus, checkpoint, "--print-alignment")
    translations, aligned = hypotheses(printed), alignments(printed)
    assert len(translations) == len(aligned) == 24
    for number, ((_, words),) in translations.items():
        assert len(aligned[number].split()) == len(words.split())


def test_it_translates_with_candidates(corpus, checkpoint, tmp_path):
    words = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()
    lexicon = tmp_path / "de-en.lex"
    lexicon.write_text("".join(f"{word} {word}-th 1\n" for word in words), encoding="utf-8")
    options = "--lexicon", lexicon, "--frequent-candidates", "0", "--batch-size", "1", "--beam", "1"
    printed = generate(corpus, checkpoint, *options)
    sources = dict(re.findall(r"^S-(\d+)\t(.*)$", printed, re.MULTILINE))
    assert len(sources) == 24
    for number, ((_, translation),) in hypotheses(printed).items():
        words = sources[str(number)].split()
        assert set(translation.split()) <= {f"{word}-th" for word in words}


def generate(corpus, checkpoint, *options):
    """The output of fairseq-generate on the test set."""
    return fairseq(
        "generate",
        corpus / "bin",
        "--user-dir",
        FAMILY,
        "--path",
        checkpoint,
        "--cpu",
        "--task",
        "convs2s_translation",
        "--num-workers",
        "0",
        *options,
    )
