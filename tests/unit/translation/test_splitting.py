"""Lines that are too long: nothing is lost, and the cuts are the best ones."""

import random

import pytest

from convs2s.translation.splitting import cuts, split

TOKENS = [
    "a",
    "b@@",
    "▁c",
    "d",
    ".",
    ",",
    "!",
    "?",
    '"',
    "&quot;",
    ")",
    "▁",
    "。",
    "...",
    "e.",
    "f,",
]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost(seed):
    numbers = random.Random(seed)
    for _ in range(50):
        tokens = numbers.choices(TOKENS, k=numbers.randint(1, 40))
        limit = numbers.randint(1, 12)
        parts = split(tokens, limit)
        assert sum(parts, []) == tokens
        assert all(1 <= len(part) <= limit for part in parts)
        assert len(cuts(tokens)) == len(tokens) + 1


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        ("a b c", 3, ["a b c"]),
        # Sentences before clauses, clauses before words; the last end within the limit.
        ("a . b , c d", 5, ["a .", "b , c d"]),
        ("a . b . c d e", 5, ["a . b .", "c d e"]),
        ("a b , c d e", 5, ["a b ,", "c d e"]),
        ("a b c d e", 2, ["a b", "c d", "e"]),
        ("a! b c d", 3, ["a!", "b c d"]),
        ("你 好 。 再 见 了", 5, ["你 好 。", "再 见 了"]),
        # A closing quote or bracket stays with its sentence.
        ('a b . " c d', 5, ['a b . "', "c d"]),
        ("a b . &quot; ) c d", 6, ["a b . &quot; )", "c d"]),
        # Within a word only if there is no other place.
        ("a b@@ c d", 2, ["a", "b@@ c", "d"]),
        ("a@@ b@@ c@@ d", 2, ["a@@ b@@", "c@@ d"]),
        ("▁a ▁b c ▁d", 2, ["▁a", "▁b c", "▁d"]),
        ("▁a . ▁b c d", 4, ["▁a .", "▁b c d"]),
        # Characters: the full stop in 3.5 ends nothing.
        ("3 . 5 ▁ a . ▁ b", 6, ["3 . 5 ▁ a .", "▁ b"]),
        ("3 . 5 ▁ a b c", 6, ["3 . 5", "▁ a b c"]),
    ],
)
def test_cuts(line, limit, expected):
    assert [" ".join(part) for part in split(line.split(), limit)] == expected
