"""Make errors in English sentences: articles, prepositions, agreement, word order and spelling."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable

ARTICLES = ("a", "an", "the")
PREPOSITIONS = (
    "about", "above", "across", "against", "along", "around", "at", "behind", "by", "down", "for",
    "from", "in", "inside", "into", "near", "of", "off", "on", "onto", "out", "outside", "over",
    "through", "to", "towards", "under", "up", "with",
)  # fmt: skip
_NUMBER_PAIRS = (
    ("is", "are"), ("was", "were"), ("has", "have"), ("does", "do"), ("man", "men"),
    ("woman", "women"), ("child", "children"), ("person", "people"), ("this", "these"),
    ("that", "those"), ("it", "they"), ("its", "their"),
)  # fmt: skip
OTHER_NUMBER = {**dict(_NUMBER_PAIRS), **{many: one for one, many in _NUMBER_PAIRS}}
# Number of errors in a sentence, and how often it has that many.
ERRORS, ERROR_WEIGHTS = (0, 1, 2, 3), (1, 2, 2, 1)
# Shortest word that gets a spelling error.
SHORTEST = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Words = list[str]


class Errors:
    """Makes errors in sentences.

    Args:
        vocabulary: the words of the text. A noun or a verb gets or loses its ``s`` only if the
            result is one of them, and a spelling error never makes one of them.
        rng: random numbers.
    """

    def __init__(self, vocabulary: Iterable[str], rng: random.Random):
        self.vocabulary = frozenset(vocabulary)
        self.rng = rng
        self.kinds: dict[str, Callable[[Words], Words | None]] = {
            "article": self.article,
            "preposition": self.preposition,
            "agreement": self.agreement,
            "word order": self.word_order,
            "spelling": self.spelling,
        }

    def corrupt(self, words: Words) -> Words:
        """Make from zero to three errors in a sentence."""
        (count,) = self.rng.choices(ERRORS, ERROR_WEIGHTS)
        for kind in self.rng.choices(list(self.kinds), k=count):
            words = self.kinds[kind](words) or words
        return words

    def article(self, words: Words) -> Words | None:
        """Omit an article, insert one, or replace it with another."""
        places = [place for place, word in enumerate(words) if word in ARTICLES]
        action = self.rng.choice(("leave out", "replace", "insert"))
        if action == "insert":
            place = self.rng.randrange(len(words))
            beside = words[max(0, place - 1) : place + 1]
            if any(word in ARTICLES or not word[0].isalpha() for word in beside):
                return None
            return [*words[:place], self.rng.choice(ARTICLES), *words[place:]]
        if not places:
            return None
        place = self.rng.choice(places)
        other = [] if action == "leave out" else [self.other(ARTICLES, words[place])]
        return [*words[:place], *other, *words[place + 1 :]]

    def preposition(self, words: Words) -> Words | None:
        """Replace a preposition with another, or omit it."""
        places = [place for place, word in enumerate(words) if word in PREPOSITIONS]
        if not places:
            return None
        place = self.rng.choice(places)
        drop = self.rng.random() < 0.3
        other = [] if drop else [self.other(PREPOSITIONS, words[place])]
        return [*words[:place], *other, *words[place + 1 :]]

    def agreement(self, words: Words) -> Words | None:
        """Swap singular and plural of a verb, a noun or a pronoun."""
        changed = {
            place: other
            for place, word in enumerate(words)
            if (other := self.other_number(word)) is not None
        }
        if not changed:
            return None
        place = self.rng.choice(list(changed))
        return [*words[:place], changed[place], *words[place + 1 :]]

    def word_order(self, words: Words) -> Words | None:
        """Swap two neighboring words."""
        places = [
            place
            for place in range(len(words) - 1)
            if words[place][0].isalpha()
            and words[place + 1][0].isalpha()
            and words[place] != words[place + 1]
        ]
        if not places:
            return None
        place = self.rng.choice(places)
        return [*words[:place], words[place + 1], words[place], *words[place + 2 :]]

    def spelling(self, words: Words) -> Words | None:
        """Omit, double, swap or replace a letter of a word."""
        places = [
            place for place, word in enumerate(words) if len(word) >= SHORTEST and word.isalpha()
        ]
        if not places:
            return None
        place = self.rng.choice(places)
        word = words[place]
        at = self.rng.randrange(1, len(word) - 1)
        wrong = self.rng.choice(
            (
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                word[:at] + self.rng.choice(LETTERS) + word[at + 1 :],
            )
        )
        return None if wrong in self.vocabulary else [*words[:place], wrong, *words[place + 1 :]]

    def other(self, words: tuple[str, ...], word: str) -> str:
        """A different one of some words."""
        return self.rng.choice([other for other in words if other != word])

    def other_number(self, word: str) -> str | None:
        """The plural of a singular or the singular of a plural; None if there is none."""
        if word in OTHER_NUMBER:
            return OTHER_NUMBER[word]
        other = word[:-1] if word.endswith("s") else f"{word}s"
        usual = len(word) >= SHORTEST and word.isalpha() and not word.endswith("ss")
        return other if usual and other in self.vocabulary else None


def split_words(line: str) -> Words:
    """The words and punctuation marks of a line, in lower case."""
    return re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", line.lower())


def frequent_words(sentences: Iterable[Words], least: int = 2) -> set[str]:
    """The words that occur at least this many times."""
    counts = Counter(word for words in sentences for word in words)
    return {word for word, count in counts.items() if count >= least}
