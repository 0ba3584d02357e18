"""examples/number_to_words: the splits share no number, and all lengths are equally frequent."""

import sys
from collections import Counter

import pytest

from convs2s.common.errors import UserError
from tests import ROOT

pytest.importorskip("num2words")
sys.path.insert(0, str(ROOT / "examples" / "number_to_words"))

from make_numbers import BEYOND, LONGEST, check_language, make_numbers  # noqa: E402


@pytest.fixture(scope="module")
def numbers():
    return make_numbers(seed=1, size=2_000, test=20)


def test_the_splits_share_no_number(numbers):
    train, valid, test = ({number for number, _ in pairs} for pairs in numbers)
    assert not train & valid and not train & test and not valid & test
    assert len(valid) == len(numbers.valid) and len(test) == len(numbers.test)


def test_lengths(numbers):
    train, valid, test = (Counter(len(number) for number, _ in pairs) for pairs in numbers)
    assert sorted(train) == list(range(1, LONGEST + 1)) and sum(train.values()) == 2_000
    assert min(train.values()) > 300
    assert sorted(valid) == list(range(2, LONGEST + 1))
    assert test == {2: 9, **dict.fromkeys(range(3, BEYOND + 1), 20)}


def test_names(numbers):
    names = dict(numbers.train)
    assert names["7"] == "seven"
    assert dict(make_numbers(seed=1, size=2_000, test=20, language="de").train)["7"] == "sieben"


def test_seed(numbers):
    assert make_numbers(seed=1, size=2_000, test=20) == numbers
    assert make_numbers(seed=2, size=2_000, test=20) != numbers


@pytest.mark.parametrize("language", ["de", "de_CH"])
def test_languages_of_num2words(language):
    check_language(language)


def test_other_languages():
    with pytest.raises(UserError, match="num2words has no language xx: give --language one of "):
        check_language("xx")
