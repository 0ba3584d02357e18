"""examples/error_correction/make_errors.py: one error of each kind at a time."""

import random
import sys

import pytest

from tests import ROOT

sys.path.insert(0, str(ROOT / "examples" / "error_correction"))

from edits import find_edits  # noqa: E402
from make_errors import (  # noqa: E402
    ARTICLES,
    PREPOSITIONS,
    Errors,
    frequent_words,
    split_words,
)

SENTENCE = split_words("The two dogs are running in a park with trees.")
VOCABULARY = {*SENTENCE, "dog", "tree"}


@pytest.fixture
def errors():
    return Errors(VOCABULARY, random.Random(1))


def changes(errors, kind, sentence=SENTENCE):
    """The changes of many errors of one kind: replaced words, words in their place."""
    found = set()
    for _ in range(200):
        wrong = errors.kinds[kind](sentence)
        if wrong is None:
            continue
        edits = find_edits(sentence, wrong)
        assert len(edits) <= 1
        found |= {(tuple(sentence[edit.start : edit.end]), edit.words) for edit in edits}
    return found


def test_articles(errors):
    found = changes(errors, "article")
    assert {(("a",), ()), (("a",), ("the",)), ((), ("an",))} <= found
    assert all(word in ARTICLES for before, after in found for word in before + after)


def test_prepositions(errors):
    found = changes(errors, "preposition")
    assert (("in",), ()) in found and (("with",), ("on",)) in found
    assert all(word in PREPOSITIONS for before, after in found for word in before + after)


def test_agreement(errors):
    assert changes(errors, "agreement") == {
        (("dogs",), ("dog",)),
        (("are",), ("is",)),
        (("trees",), ("tree",)),
    }


def test_word_order(errors):
    found = changes(errors, "word order")
    assert (("two", "dogs"), ("dogs", "two")) in found
    assert all(before == after[::-1] for before, after in found)
    assert not any("." in before for before, _ in found)


def test_spelling(errors):
    found = changes(errors, "spelling")
    assert {before for before, _ in found} == {
        ("dogs",),
        ("running",),
        ("park",),
        ("with",),
        ("trees",),
    }
    assert not any(word in VOCABULARY for _, after in found for word in after)


@pytest.mark.parametrize("kind", ("article", "preposition", "agreement", "word order", "spelling"))
def test_a_sentence_without_a_place_for_the_error(errors, kind):
    assert changes(errors, kind, ["!"]) == set()


def test_some_sentences_stay_right(errors):
    wrong = [errors.corrupt(SENTENCE) for _ in range(100)]
    assert 5 < sum(words == SENTENCE for words in wrong) < 50


def test_words():
    assert split_words("Tom's dog, well-fed,\n") == ["tom's", "dog", ",", "well-fed", ","]
    assert frequent_words([["a", "b"], ["a"]]) == {"a"}
