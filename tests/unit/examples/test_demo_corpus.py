"""The demo's corpus is parallel and reproducible, and no sentence occurs twice."""

import random
import sys

import pytest

from tests import ROOT

pytest.importorskip("num2words")
pytest.importorskip("babel")
sys.path.insert(0, str(ROOT / "examples" / "demo"))

import make_corpus  # noqa: E402

PAIRS = 3_400


@pytest.fixture(scope="module")
def corpus():
    return make_corpus.make_corpus(seed=1, size=PAIRS)


def test_size(corpus):
    assert len(corpus) == PAIRS


def test_seed(corpus):
    assert make_corpus.make_corpus(seed=1, size=PAIRS) == corpus
    assert make_corpus.make_corpus(seed=2, size=PAIRS) != corpus


@pytest.mark.parametrize("side", (0, 1))
def test_no_sentence_occurs_twice_in_a_language(corpus, side):
    sentences = [pair[side] for pair in corpus]
    assert len(set(sentences)) == len(sentences)


def test_no_sentence_is_empty_or_copied(corpus):
    for de, en in corpus:
        assert de.strip() == de != ""
        assert en.strip() == en != ""
        assert de != en


def test_source_and_target_share_few_tokens(corpus):
    shared = [len(set(de.split()) & set(en.split())) / len(en.split()) for de, en in corpus]
    assert sum(shared) / len(shared) < 0.25


@pytest.mark.parametrize("kind", make_corpus.KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_sentence_is_one_line(kind):
    rng = random.Random(0)
    for text in (text for _ in range(50) for text in kind(rng)):
        assert len(text.splitlines()) == 1


def test_numbers_are_spelled_out():
    amounts = random.Random(0)
    german, english = make_corpus.quantity(amounts)
    assert not any(letter.isdigit() for letter in german + english)


def test_files_are_parallel(corpus, tmp_path):
    german, english = (
        path.read_text(encoding="utf-8").splitlines()
        for path in make_corpus.write_corpus(tmp_path, corpus)
    )
    assert list(zip(german, english)) == corpus
    assert {path.name for path in tmp_path.iterdir()} == {"corpus.de", "corpus.en"}


@pytest.mark.parametrize("pairs", ["0", "-5"])
def test_no_pairs(pairs, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "corpus"
    monkeypatch.setattr("sys.argv", ["make_corpus.py", str(folder), f"--pairs={pairs}"])
    with pytest.raises(SystemExit):
        make_corpus.main()
    assert f"--pairs is {pairs}, but must be at least 1." in capsys.readouterr().err
    assert not folder.exists()


def test_a_folder_that_is_a_file(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setattr("sys.argv", ["make_corpus.py", str(tmp_path / "file"), "--pairs=3"])
    with pytest.raises(SystemExit):
        make_corpus.main()
    assert "file cannot be written: File exists." in capsys.readouterr().err
