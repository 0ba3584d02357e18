"""Candidate vocabularies: the target words that a batch of source sentences may need.

ConvS2S, section 5.4, after Mi et al. 2016 and L'Hostis et al. 2016.
"""

import heapq
import logging
from collections.abc import Iterable

import torch
from torch import Tensor

from ..errors import UserError
from ..lexicon.files import Entry

logger = logging.getLogger(__name__)


class Candidates:
    """The union of the candidates of source words, frequent words and special symbols.

    Args:
        table: source types x K indices of target words, filled up with special symbols.
        by_frequency: all target words, the special symbols first, then the most frequent ones.
        frequent: how many of these every batch has.
    """

    def __init__(self, table: Tensor, by_frequency: Tensor, frequent: int):
        self.table = table
        self.by_frequency = by_frequency
        self.frequent = frequent
        self.sets = self.words = 0

    @property
    def vocabulary(self) -> int:
        """V, the number of all target words."""
        return len(self.by_frequency)

    def __call__(self, src_tokens: Tensor, *also: Tensor, at_least: int = 0) -> Tensor:
        """The candidates of a batch: K sorted indices.

        Args:
            src_tokens: B x S indices of source words.
            also: indices of target words that are needed in any case.
            at_least: take more of the frequent words rather than have fewer candidates than this.
        """
        device = src_tokens.device
        self.table = self.table.to(device)
        self.by_frequency = self.by_frequency.to(device)
        wanted = [self.table[src_tokens.unique()].flatten(), *(words.flatten() for words in also)]
        words = torch.cat([self.by_frequency[: self.frequent], *wanted]).unique()
        if len(words) < at_least:
            words = torch.cat([words, self.by_frequency[:at_least]]).unique()
        self.sets += 1
        self.words += len(words)
        return words

    def report(self) -> str:
        """One line on all batches so far, of which there must be some."""
        mean = self.words / self.sets
        return (
            f"candidate vocabularies: {mean:,.0f} of {self.vocabulary:,} words on average "
            f"({mean / self.vocabulary:.1%}), {self.sets:,} batches"
        )


def build_candidates(
    entries: Iterable[Entry], path: str, source, target, per_word: int, frequent: int
) -> Candidates:
    """Candidates from a lexicon.

    Args:
        entries: the lexicon's, in any order; read once, of which K a source word are kept.
        path: its name, for messages.
        source: the source dictionary.
        target: the target dictionary.
        per_word: K, the most probable target words that are kept of each source word.
        frequent: how many of the most frequent target words every batch has.
    Raises:
        UserError: where the numbers make no sense or no entry is in the dictionaries.
    """
    if per_word < 1:
        raise UserError(f"--candidates-per-word is {per_word}, but must be at least 1.")
    if frequent < 0:
        raise UserError(f"--frequent-candidates is {frequent}, but must not be negative.")
    best: dict[int, list[tuple[float, int]]] = {}
    unknown: dict[str, None] = {}
    read = left_out = 0
    for entry in entries:
        read += 1
        missing = [
            word
            for word, symbols in ((entry.source, source), (entry.target, target))
            if word not in symbols
        ]
        if missing:
            left_out += 1
            if len(unknown) < 3:
                unknown.update(dict.fromkeys(missing))
            continue
        kept = best.setdefault(source.index(entry.source), [])
        item = (entry.probability, target.index(entry.target))
        (heapq.heappushpop if len(kept) == per_word else heapq.heappush)(kept, item)
    names = ", ".join(f"'{word}'" for word in list(unknown)[:3])
    if not best:
        raise UserError(
            f"None of the {read:,} entries of {path} is in the dictionaries (not there: "
            f"{names or 'the file is empty'}): build the lexicon from the text that was binarised, "
            "BPE and lower case included, with the source language first."
        )
    if left_out:
        logger.warning(
            f"{left_out:,} of {read:,} entries of {path} have words that are not in the "
            f"dictionaries and are left out (first ones: {names})"
        )
    logger.info(f"{len(best):,} of {len(source):,} source words have candidates in {path}")

    table = torch.full((len(source), per_word), target.pad())
    for word, kept in best.items():
        table[word, : len(kept)] = torch.tensor([index for _, index in kept])
    special = target.nspecial
    counts = torch.tensor(target.count[special:])
    order = counts.argsort(descending=True, stable=True) + special
    return Candidates(table, torch.cat([torch.arange(special), order]), special + frequent)
