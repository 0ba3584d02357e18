"""A tiny corpus, binarized by fairseq-preprocess, and a checkpoint that fairseq-train wrote."""

import os
import random
from pathlib import Path

import pytest

import convs2s_plugin  # noqa: F401  (registers the models)

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.support.commands import fairseq, train  # noqa: E402
from tests.support.fconv import FCONV  # noqa: E402

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()


def write_corpus(folder: Path) -> None:
    """Parallel text: the target is the source backwards, in other words.

    No word occurs twice in a sentence, so that every seed learns to translate in a few epochs.
    """
    numbers = random.Random(1)
    for split, size in (("train", 240), ("valid", 24), ("test", 24)):
        sources = [numbers.sample(WORDS, numbers.randint(2, 7)) for _ in range(size)]
        targets = [[f"{word}-th" for word in reversed(words)] for words in sources]
        for language, lines in (("de", sources), ("en", targets)):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The folder of the text and of ``bin``, the binarized data."""
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    fairseq(
        "preprocess",
        *("--source-lang", "de", "--target-lang", "en", "--destdir", folder / "bin"),
        *(f"--{name}pref={folder / name}" for name in ("train", "valid", "test")),
    )
    return folder


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """The folder of a training with fairseq's default task and criterion, and its log."""
    folder = tmp_path_factory.mktemp("trained")
    log = train(corpus, folder, "--max-epoch", "12", "--keep-last-epochs", "3")
    (folder / "log").write_text(log, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def fconv(corpus, tmp_path_factory):
    """A checkpoint that fairseq trained with its own fconv."""
    folder = tmp_path_factory.mktemp("fconv")
    train(corpus, folder, options=FCONV)
    return folder / "checkpoint_last.pt"
