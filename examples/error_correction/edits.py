"""Score corrections by their edits: precision, recall and F0.5.

An edit inserts, removes or replaces one word, or swaps two neighbors. The edits of a correction
are the fewest that turn the source into it (Damerau-Levenshtein distance). ERRANT (Bryant et al.
2017) also aligns by lemmas and parts of speech, and joins edits that belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# F0.5 weights precision twice as much as recall.
BETA = 0.5


class Edit(NamedTuple):
    """A change of the source.

    Attributes:
        start, end: source[start:end] is replaced; it is empty in an insertion.
        words: the words in its place; none if a word is removed.
    """

    start: int
    end: int
    words: tuple[str, ...]


@dataclass
class Score:
    """Counts of edits.

    Attributes:
        right: edits of the corrections that are also in the references.
        made: edits of the corrections.
        wanted: edits of the references.
    """

    right: int = 0
    made: int = 0
    wanted: int = 0

    @property
    def precision(self) -> float:
        """Share of the made edits that are right; 1 if there are none."""
        return self.right / self.made if self.made else 1.0

    @property
    def recall(self) -> float:
        """Share of the wanted edits that were made; 1 if there are none."""
        return self.right / self.wanted if self.wanted else 1.0

    @property
    def f(self) -> float:
        """F0.5 of precision and recall."""
        weighted = BETA**2 * self.precision + self.recall
        return (1 + BETA**2) * self.precision * self.recall / weighted if weighted else 0.0


def find_edits(source: Sequence[str], target: Sequence[str]) -> Counter[Edit]:
    """The fewest edits that turn one sentence into another.

    They are counted because the same word can be inserted twice at the same place.
    """
    # distances[i][j]: edits between source[:i] and target[:j].
    distances = [[i + j for j in range(len(target) + 1)] for i in range(len(source) + 1)]
    for i in range(1, len(source) + 1):
        for j in range(1, len(target) + 1):
            distances[i][j] = min(
                distances[i - a][j - b] + cost for a, b, cost in _steps(source, target, i, j)
            )
    edits: Counter[Edit] = Counter()
    i, j = len(source), len(target)
    while i or j:
        a, b, cost = next(
            step
            for step in _steps(source, target, i, j)
            if distances[i - step[0]][j - step[1]] + step[2] == distances[i][j]
        )
        if cost:
            edits[Edit(i - a, i, tuple(target[j - b : j]))] += 1
        i, j = i - a, j - b
    return edits


def _steps(
    source: Sequence[str], target: Sequence[str], i: int, j: int
) -> Iterator[tuple[int, int, int]]:
    """The last step of an alignment of source[:i] and target[:j]: source words, target words, cost.

    The first of several steps that are equally good is taken.
    """
    if i and j:
        yield 1, 1, int(source[i - 1] != target[j - 1])
    if i > 1 and j > 1 and (source[i - 2], source[i - 1]) == (target[j - 1], target[j - 2]):
        yield 2, 2, 1
    if i:
        yield 1, 0, 1
    if j:
        yield 0, 1, 1


def score(
    sources: Sequence[Sequence[str]],
    corrections: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> Score:
    """Count the edits of all sentences."""
    total = Score()
    for source, correction, reference in zip(sources, corrections, references, strict=True):
        made, wanted = find_edits(source, correction), find_edits(source, reference)
        total.right += (made & wanted).total()
        total.made += made.total()
        total.wanted += wanted.total()
    return total


def recall_by_kind(
    sources: Sequence[Sequence[str]],
    corrections: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    kind_of: Callable[[tuple[str, ...], tuple[str, ...]], str],
) -> dict[str, Score]:
    """Count the wanted and the right edits of each kind.

    Args:
        kind_of: the kind of an edit, from the replaced words and the words in their place.
    """
    counts: dict[str, Counter[str]] = {}
    for source, correction, reference in zip(sources, corrections, references, strict=True):
        made = find_edits(source, correction)
        for edit, count in find_edits(source, reference).items():
            kind = kind_of(tuple(source[edit.start : edit.end]), edit.words)
            right = min(count, made[edit])
            counts.setdefault(kind, Counter()).update(wanted=count, right=right)
    return {kind: Score(count["right"], 0, count["wanted"]) for kind, count in counts.items()}
