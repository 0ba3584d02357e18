"""Symmetrization of word alignments (Koehn et al. 2005), with the method names of Moses."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Link = tuple[int, int]

_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrize(forward: set[Link], reverse: set[Link], method: str) -> set[Link]:
    """Combine the forward and the reverse alignment of a sentence pair.

    Args:
        forward, reverse: links (source position, target position) of both directions.
        method: one of METHODS.
    """
    return METHODS[method](forward, reverse)


class _GrowingAlignment:
    """An alignment, and the positions of its aligned words."""

    def __init__(self, links: set[Link]):
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def grow_diag(self, union: set[Link]) -> None:
        """Add links of the union that neighbor a link and have an unaligned word.

        By definition, the links are visited row by row in repeated passes, until a pass adds
        nothing. A neighbor that has no unaligned word never has one later, so one visit per link
        is enough. The two heaps keep the order of the passes.
        """
        missing = union - self.links
        this_pass, next_pass = sorted(self.links), list[Link]()
        while this_pass and missing:
            link = heappop(this_pass)
            for down, right in _NEIGHBORS:
                neighbor = (link[0] + down, link[1] + right)
                if neighbor in missing and self._has_unaligned_word(neighbor):
                    missing.remove(neighbor)
                    self.add(neighbor)
                    heappush(this_pass if neighbor > link else next_pass, neighbor)
            if not this_pass:
                this_pass, next_pass = next_pass, []
                heapify(this_pass)

    def final(self, direction: set[Link], both: bool) -> None:
        """Add links of one direction that have an unaligned word, or two if ``both``."""
        for link in sorted(direction - self.links):
            fits = self._has_unaligned_words(link) if both else self._has_unaligned_word(link)
            if fits:
                self.add(link)

    def _has_unaligned_word(self, link: Link) -> bool:
        return link[0] not in self.sources or link[1] not in self.targets

    def _has_unaligned_words(self, link: Link) -> bool:
        return link[0] not in self.sources and link[1] not in self.targets


def _grow_diag(forward: set[Link], reverse: set[Link]) -> _GrowingAlignment:
    alignment = _GrowingAlignment(forward & reverse)
    alignment.grow_diag(forward | reverse)
    return alignment


def _grow_diag_final(forward: set[Link], reverse: set[Link], both: bool) -> set[Link]:
    alignment = _grow_diag(forward, reverse)
    alignment.final(forward, both)
    alignment.final(reverse, both)
    return alignment.links


METHODS: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
    "intersection": lambda forward, reverse: forward & reverse,
    "union": lambda forward, reverse: forward | reverse,
    "grow-diag": lambda forward, reverse: _grow_diag(forward, reverse).links,
    "grow-diag-final": lambda forward, reverse: _grow_diag_final(forward, reverse, both=False),
    "grow-diag-final-and": lambda forward, reverse: _grow_diag_final(forward, reverse, both=True),
}
