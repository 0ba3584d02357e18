"""How often two words are linked, and the probabilities that follow."""

from array import array
from collections.abc import Iterator

import numpy as np

from .files import Entry
from .links import AlignedPair

# Pairs that wait for being sorted into the counts; few, so that memory stays small.
MIN_PENDING = 1 << 18


class LinkCounts:
    """Counts of linked words.

    Memory grows with the number of different words and pairs of words, not with the text: a pair
    takes 16 bytes, and several times as much while it is sorted in.
    """

    def __init__(self) -> None:
        self.sources: dict[str, int] = {}
        self.targets: dict[str, int] = {}
        # A pair is one number: source index * 2**32 + target index.
        self._pairs = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending = array("q")

    def add(self, pair: AlignedPair) -> None:
        """Count the links of one sentence pair: source words, target words, links."""
        words, others, links = pair
        for i, j in links:
            source = self.sources.setdefault(words[i], len(self.sources))
            target = self.targets.setdefault(others[j], len(self.targets))
            self._pending.append(source << 32 | target)
        if len(self._pending) > max(MIN_PENDING, len(self._pairs)):
            self._sort_in()

    def _sort_in(self) -> None:
        pending = np.array(self._pending, dtype=np.int64)
        self._pending = array("q")
        pairs = np.concatenate([self._pairs, pending])
        counts = np.concatenate([self._counts, np.ones_like(pending)])
        order = np.argsort(pairs, kind="stable")
        pairs, counts = pairs[order], counts[order]
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        self._pairs = pairs[first]
        self._counts = np.add.reduceat(counts, first) if len(first) else counts

    def entries(
        self, min_probability: float, max_per_word: int, reverse: bool = False
    ) -> Iterator[Entry]:
        """The lexicon: p(target | source) = links of the two / links of the source word.

        Of equally probable translations the one that is rarer as a translation comes later and so
        counts as the better one: it is the one that more probably goes back to the word.

        Args:
            min_probability: leave out less probable entries.
            max_per_word: keep only the most probable entries of each word.
            reverse: p(source | target), the target word being the entry's source.
        Returns:
            Entries in a lexicon file's order: words sorted, each one's best entry last.
        """
        self._sort_in()
        source, target = self._pairs >> 32, self._pairs & 0xFFFFFFFF
        names, others = list(self.sources), list(self.targets)
        if reverse:
            source, target, names, others = target, source, others, names
        probability = self._counts / _totals(source, self._counts)[source]
        rarity = -_totals(target, self._counts)[target]
        group = _ranks(names)[source]
        order = np.lexsort((_ranks(others)[target], rarity, probability, group))
        group, source, target = group[order], source[order], target[order]
        probability = probability[order]
        place = np.searchsorted(group, group, side="right") - np.arange(len(group))
        kept = (probability >= min_probability) & (place <= max_per_word)
        for index in np.flatnonzero(kept):
            yield Entry(names[source[index]], others[target[index]], float(probability[index]))


def _totals(words: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.bincount(words, weights=counts)


def _ranks(names: list[str]) -> np.ndarray:
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return ranks
