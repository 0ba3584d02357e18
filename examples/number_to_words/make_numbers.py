"""Numbers and their names: ``1042`` and ``one thousand and forty-two``, from num2words."""

from __future__ import annotations

import random
from typing import NamedTuple

from num2words import CONVERTER_CLASSES, num2words

from convs2s.common.errors import UserError, nearest

# Most digits of a number in the training text.
LONGEST = 5
# Digits of the longest numbers to test on.
BEYOND = 7
# Numbers of each length to validate and to test on.
VALID, TEST = 100, 200
# At most a tenth of all numbers of a length is for testing.
PART = 10

Pair = tuple[str, str]


class Numbers(NamedTuple):
    """Pairs of a number and its name. The splits have no number in common."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def check_language(language: str) -> None:
    """Check that num2words has a language.

    Raises:
        UserError: if it has not.
    """
    try:
        num2words(0, lang=language)
    except NotImplementedError as error:
        near = nearest(language, CONVERTER_CLASSES)
        raise UserError(
            f"num2words has no language {language}{near}: give --language one of "
            f"{', '.join(sorted(CONVERTER_CLASSES))}."
        ) from error


def make_numbers(seed: int, size: int, test: int = TEST, language: str = "en") -> Numbers:
    """Draw numbers of all lengths with the same frequency.

    Args:
        seed: the same seed gives the same numbers.
        size: number of training pairs. Short numbers are repeated, as there are few of them.
        test: number of test pairs of each length, at most.
        language: a language of num2words.
    """
    rng = random.Random(seed)
    held_out: dict[str, list[int]] = {"valid": [], "test": []}
    for digits in range(2, BEYOND + 1):
        first, last = 10 ** (digits - 1), 10**digits
        test_size = min(test, (last - first) // PART)
        valid_size = min(VALID, test_size) if digits <= LONGEST else 0
        drawn = rng.sample(range(first, last), test_size + valid_size)
        held_out["test"] += drawn[:test_size]
        held_out["valid"] += drawn[test_size:]
    unseen = {value for values in held_out.values() for value in values}
    train: list[int] = []
    while len(train) < size:
        digits = rng.randint(1, LONGEST)
        value = rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)
        if value not in unseen:
            train.append(value)
    return Numbers(
        *(
            [(str(value), num2words(value, lang=language)) for value in values]
            for values in (train, held_out["valid"], held_out["test"])
        )
    )
