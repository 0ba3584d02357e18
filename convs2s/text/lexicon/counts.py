"""Counts of word alignment links, and translation probabilities estimated from them."""

from array import array
from collections.abc import Iterator

import numpy as np

from .files import Entry
from .links import AlignedPair

# Smallest number of links that are collected before they are merged into the counts. It is small
# so that little memory is used.
MIN_PENDING = 1 << 18


class LinkCounts:
    """The number of links of each pair of a source and a target word.

    Memory grows with the number of different words and word pairs, not with the text: a word pair
    takes 16 bytes, and several times as much while links are merged.
    """

    def __init__(self) -> None:
        self.source_ids: dict[str, int] = {}
        self.target_ids: dict[str, int] = {}
        # A word pair is one integer: source id * 2**32 + target id. The array is sorted.
        self._pairs = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)
        self._pending = array("q")

    def add(self, pair: AlignedPair) -> None:
        """Count the links of a sentence pair."""
        source_words, target_words, links = pair
        for i, j in links:
            source = self.source_ids.setdefault(source_words[i], len(self.source_ids))
            target = self.target_ids.setdefault(target_words[j], len(self.target_ids))
            self._pending.append(source << 32 | target)
        if len(self._pending) > max(MIN_PENDING, len(self._pairs)):
            self._merge_pending()

    def _merge_pending(self) -> None:
        pending = np.array(self._pending, dtype=np.int64)
        self._pending = array("q")
        pairs = np.concatenate([self._pairs, pending])
        counts = np.concatenate([self._counts, np.ones_like(pending)])
        order = np.argsort(pairs, kind="stable")
        pairs, counts = pairs[order], counts[order]
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        self._pairs = pairs[first]
        self._counts = np.add.reduceat(counts, first)

    def entries(
        self, min_probability: float, max_per_word: int, reverse: bool = False
    ) -> Iterator[Entry]:
        """Lexicon entries with p(target | source) = count(source, target) / count(source).

        If translations are equally probable, the one with fewer links in all comes later and ranks
        as the better one: its links are more specific to the source word.

        Args:
            min_probability: omit entries that are less probable.
            max_per_word: keep only this many entries of each source word, the most probable ones.
            reverse: estimate p(source | target) instead; an entry's source is then a word of the
                target language (False).
        Returns:
            Entries in the order of a lexicon file: sorted by source word, the best entry of each
            source word last.
        """
        self._merge_pending()
        source, target = self._pairs >> 32, self._pairs & 0xFFFFFFFF
        source_words, target_words = list(self.source_ids), list(self.target_ids)
        if reverse:
            source, target = target, source
            source_words, target_words = target_words, source_words
        probability = self._counts / np.bincount(source, self._counts)[source]
        rarity = -np.bincount(target, self._counts)[target]
        group = _ranks(source_words)[source]
        order = np.lexsort((_ranks(target_words)[target], rarity, probability, group))
        group, source, target = group[order], source[order], target[order]
        probability = probability[order]
        # 1 for the best entry of a source word, 2 for the second best, and so on.
        rank = np.searchsorted(group, group, side="right") - np.arange(len(group))
        kept = (probability >= min_probability) & (rank <= max_per_word)
        for i in np.flatnonzero(kept):
            yield Entry(source_words[source[i]], target_words[target[i]], float(probability[i]))


def _ranks(words: list[str]) -> np.ndarray:
    """The place of each word in the sorted list."""
    ranks = np.empty(len(words), dtype=np.int64)
    ranks[sorted(range(len(words)), key=words.__getitem__)] = np.arange(len(words))
    return ranks
