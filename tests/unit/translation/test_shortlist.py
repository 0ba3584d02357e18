"""Shortlists: their tokens, and what is refused."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.text.lexicon.files import Entry
from convs2s.translation.shortlist import build_shortlist
from tests.support.batches import vocabulary


def entries(*lines):
    return [Entry(f"w{s}", f"w{t}", p) for s, t, p in lines]


def build(lines, per_word=2, frequent=0, target=None):
    symbols = vocabulary()
    return build_shortlist(lines, "file", symbols, target or symbols, per_word, frequent)


def test_a_shortlist_is_the_union_for_a_batch():
    shortlist = build(entries((0, 5, 0.1), (0, 6, 0.5), (0, 7, 0.4), (1, 6, 1.0), (2, 9, 1.0)))
    source = torch.tensor([[1, 4, 5, 2]])  # padding, w0, w1, end of sentence
    # The special symbols, the two best of w0, the best of w1.
    assert shortlist(source).tolist() == [0, 1, 2, 3, 10, 11]
    assert shortlist(source, torch.tensor([[20]])).tolist() == [0, 1, 2, 3, 10, 11, 20]
    assert shortlist(source, min_size=8).tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11]


def test_frequent_words_are_those_with_the_highest_counts():
    target = vocabulary()
    target.count[10], target.count[8] = 7, 5
    shortlist = build(entries((0, 0, 1.0)), frequent=2, target=target)
    assert shortlist(torch.tensor([[9]])).tolist() == [0, 1, 2, 3, 8, 10]


def test_unknown_words_of_a_lexicon_are_reported(caplog):
    lines = [*entries((0, 1, 1.0)), Entry("foreign", "w3", 0.5), Entry("w1", "other", 0.5)]
    shortlist = build(lines)
    assert shortlist(torch.tensor([[4]])).tolist() == [0, 1, 2, 3, 5]
    assert "2 of 3 entries of file have words" in caplog.text
    assert "'foreign', 'other'" in caplog.text
    with pytest.raises(UserError, match="None of the 1 entries of file .*'foreign'"):
        build([Entry("foreign", "w3", 0.5)])
    with pytest.raises(UserError, match="0 entries of file .*is empty"):
        build([])


@pytest.mark.parametrize("numbers", [dict(per_word=0), dict(frequent=-1)])
def test_impossible_numbers(numbers):
    with pytest.raises(UserError, match="is (0|-1), but must"):
        build(entries((0, 0, 1.0)), **numbers)
