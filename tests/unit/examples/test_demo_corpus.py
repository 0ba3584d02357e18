"""The demo's corpus is parallel and reproducible, and its splits do not overlap."""

import random
import sys

import pytest

from tests import ROOT

pytest.importorskip("num2words")
pytest.importorskip("babel")
sys.path.insert(0, str(ROOT / "examples" / "demo"))

import make_corpus  # noqa: E402

SIZES = {"train": 3_000, "valid": 200, "test": 200}


@pytest.fixture(scope="module")
def corpus():
    return make_corpus.make_corpus(seed=1, sizes=SIZES)


def test_sizes(corpus):
    assert {split: len(pairs) for split, pairs in corpus.items()} == SIZES


def test_seed(corpus):
    assert make_corpus.make_corpus(seed=1, sizes=SIZES) == corpus
    assert make_corpus.make_corpus(seed=2, sizes=SIZES) != corpus


@pytest.mark.parametrize("side", (0, 1))
def test_no_sentence_occurs_twice_in_a_language(corpus, side):
    sentences = [pair[side] for pairs in corpus.values() for pair in pairs]
    assert len(set(sentences)) == len(sentences)


def test_no_sentence_is_empty_or_copied(corpus):
    for de, en in (pair for pairs in corpus.values() for pair in pairs):
        assert de.strip() == de != ""
        assert en.strip() == en != ""
        assert de != en


def test_source_and_target_share_few_tokens(corpus):
    shared = [len(set(de.split()) & set(en.split())) / len(en.split()) for de, en in corpus["test"]]
    assert sum(shared) / len(shared) < 0.25


@pytest.mark.parametrize("kind", make_corpus.KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_sentence_can_be_tokenized_and_detokenized(kind):
    rng = random.Random(0)
    for text in (text for _ in range(50) for text in kind(rng)):
        # CLDR writes some ranges without spaces around the dash.
        spaced = text.lower().replace("–", " – ")
        assert make_corpus.detokenize(make_corpus.tokenize(text)) == " ".join(spaced.split())


def test_tokenization_and_spelled_out_numbers():
    assert make_corpus.tokenize("Fr., 31.03.23, 15:07") == "fr . , 31 .03 .23 , 15 :07"
    assert make_corpus.tokenize("31. März") == "31. märz"
    amounts = random.Random(0)
    german, english = make_corpus.quantity(amounts)
    assert not any(letter.isdigit() for letter in german + english)


def test_files_are_parallel(corpus, tmp_path):
    make_corpus.write_corpus(tmp_path, corpus)
    for split, pairs in corpus.items():
        german = (tmp_path / f"{split}.de").read_text(encoding="utf-8").splitlines()
        english = (tmp_path / f"{split}.en").read_text(encoding="utf-8").splitlines()
        assert list(zip(german, english)) == pairs
