"""A tiny corpus, binarized by fairseq-preprocess, and a checkpoint that fairseq-train wrote."""

import os
import random
import re
from importlib import import_module
from pathlib import Path

import pytest

from convs2s.common.installation import missing_fairseq
from tests import ROOT
from tests.support.browser import Browser, find_browser

os.environ.setdefault("OMP_NUM_THREADS", "1")
MISSING = missing_fairseq()

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf".split()


if MISSING is None:
    # Registers the models.
    import convs2s_plugin  # noqa: F401


class WithoutFairseq(pytest.Module):
    """A file of tests that needs fairseq, which is not installed: its tests are skipped."""

    def collect(self):
        pytest.skip(f"{self.path.name}: {MISSING}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    """Skip what imports fairseq where it is not installed, such as on Python 3.13."""
    if MISSING is None:
        return None
    name = ".".join(module_path.relative_to(ROOT).with_suffix("").parts)
    try:
        import_module(name)
    except ImportError as error:
        if re.search("fairseq|convs2s_plugin", str(error)):
            return WithoutFairseq.from_parent(parent, path=module_path)
    return None


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
    pytest.importorskip("fairseq")
    from tests.support.commands import fairseq

    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    fairseq(
        "preprocess",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--destdir",
        folder / "bin",
        *(f"--{name}pref={folder / name}" for name in ("train", "valid", "test")),
    )
    return folder


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """The folder of a training with fairseq's default task and criterion, and its log."""
    from tests.support.commands import train

    folder = tmp_path_factory.mktemp("trained")
    log = train(corpus, folder, "--max-epoch", "12", "--keep-last-epochs", "3")
    (folder / "log").write_text(log, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def fconv(corpus, tmp_path_factory):
    """A checkpoint that fairseq trained with its own fconv."""
    from tests.support.commands import train
    from tests.support.fconv import FCONV

    folder = tmp_path_factory.mktemp("fconv")
    train(corpus, folder, options=FCONV)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="module")
def browser():
    """A browser, for tests of pages."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium or Chrome is installed, with which this test opens the page")
    with Browser(program) as started:
        yield started
