"""Groups of sentences by length."""

import random

import pytest

from convs2s.common.errors import UserError
from convs2s.evaluation.comparison import group_by_length


def test_groups_of_about_the_same_size():
    generator = random.Random(1)
    lengths = [generator.randint(1, 60) for _ in range(1000)]
    groups = group_by_length(lengths)
    assert len(groups) == 5
    assert all(150 < len(group.sentences) < 250 for group in groups)
    assert sorted(i for group in groups for i in group.sentences) == list(range(1000))
    for group in groups:
        found = [lengths[i] for i in group.sentences]
        assert (group.low, group.high) == (min(found), max(found))
    assert all(low.high < high.low for low, high in zip(groups, groups[1:]))


def test_given_bounds():
    groups = group_by_length([1, 10, 11, 40, 3], [10, 20, 30])
    assert groups == [(1, 10, [0, 1, 4]), (11, 11, [2]), (40, 40, [3])]


@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [1, 2]])
def test_few_sentences(lengths):
    groups = group_by_length(lengths)
    assert sorted(i for group in groups for i in group.sentences) == list(range(len(lengths)))


@pytest.mark.parametrize("bounds", [[0, 5], [5, 5], [10, 5], [-1]])
def test_bounds_must_increase(bounds):
    with pytest.raises(UserError, match="--length-bounds is .* positive and increasing"):
        group_by_length([1, 2, 3], bounds)
