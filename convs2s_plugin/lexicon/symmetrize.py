"""One alignment out of two directions' alignments (Koehn et al. 2005; Moses's names)."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

Link = tuple[int, int]

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: set[Link], reverse: set[Link], method: str) -> set[Link]:
    """Combine the links of one sentence pair.

    Args:
        forward, reverse: links of the two directions, all of them (source, target).
        method: one of METHODS.
    """
    return METHODS[method](forward, reverse)


class _Growing:
    """Links with the words that have one."""

    def __init__(self, links: set[Link]):
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def add(self, link: Link) -> None:
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def grow(self, allowed: set[Link]) -> None:
        """Add neighbours, diagonal ones too, that link a word without a link.

        The definition goes through the grid, row by row, until a pass adds nothing. A neighbour
        that is refused once is refused for ever, so that each link needs one visit only; the two
        heaps keep the order of the grid.
        """
        missing = allowed - self.links
        this_pass, next_pass = sorted(self.links), list[Link]()
        while this_pass and missing:
            link = heappop(this_pass)
            for down, right in _NEIGHBOURS:
                found = (link[0] + down, link[1] + right)
                if found in missing and self._has_free_word(found):
                    missing.remove(found)
                    self.add(found)
                    heappush(this_pass if found > link else next_pass, found)
            if not this_pass:
                this_pass, next_pass = next_pass, []
                heapify(this_pass)

    def finish(self, allowed: set[Link], both: bool) -> None:
        """Add links, adjacent or not, that link a word without a link (or two such words)."""
        for link in sorted(allowed - self.links):
            free = self._has_two_free_words(link) if both else self._has_free_word(link)
            if free:
                self.add(link)

    def _has_free_word(self, link: Link) -> bool:
        return link[0] not in self.sources or link[1] not in self.targets

    def _has_two_free_words(self, link: Link) -> bool:
        return link[0] not in self.sources and link[1] not in self.targets


def _grow_diag(forward: set[Link], reverse: set[Link]) -> _Growing:
    growing = _Growing(forward & reverse)
    growing.grow(forward | reverse)
    return growing


def _grow_diag_final(forward: set[Link], reverse: set[Link], both: bool) -> set[Link]:
    growing = _grow_diag(forward, reverse)
    growing.finish(forward, both)
    growing.finish(reverse, both)
    return growing.links


METHODS: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
    "intersection": lambda forward, reverse: forward & reverse,
    "union": lambda forward, reverse: forward | reverse,
    "grow-diag": lambda forward, reverse: _grow_diag(forward, reverse).links,
    "grow-diag-final": lambda forward, reverse: _grow_diag_final(forward, reverse, both=False),
    "grow-diag-final-and": lambda forward, reverse: _grow_diag_final(forward, reverse, both=True),
}
