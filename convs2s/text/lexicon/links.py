"""Word alignment links: files in Pharaoh format, and symmetrization.

A line of a file is ``0-0 1-2 2-1``, source-target, counted from 0. The methods of symmetrization
(Koehn et al. 2005) have the names of Moses.
"""

import re
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from ...common.lines import excerpt
from ...common.text_files import line_error, read_parallel

Link = tuple[int, int]
# Source words, target words, and the links between them.
AlignedPair = tuple[list[str], list[str], set[Link]]

METHODS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")
_NEIGHBORS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def parse_links(
    line: str, source_length: int, target_length: int, path: str, number: int
) -> set[Link]:
    """Parse the links of one sentence pair.

    Args:
        line: links separated by blanks; it may be empty.
        source_length, target_length: lengths of the two sentences, in words.
        path, number: file and line number, for error messages.
    Returns:
        Pairs of a source and a target position, counted from 0.
    Raises:
        UserError: if a link is malformed, or a position is beyond the end of its sentence.
    """
    links = set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None:
            raise line_error(
                path,
                number,
                "expected links 'source-target' such as 0-0 1-2 (Pharaoh format), found "
                f"{excerpt(text)}",
            )
        source, target = int(match[1]), int(match[2])
        if source >= source_length or target >= target_length:
            raise line_error(
                path,
                number,
                f"the link {text} points past the end of a sentence: the source has "
                f"{source_length} words and the target {target_length}, and positions are counted "
                "from 0",
            )
        links.add((source, target))
    return links


def read_aligned(
    source: str, target: str, alignments: Sequence[str], method: str
) -> Iterator[AlignedPair]:
    """Read sentence pairs and their links from files.

    Args:
        source, target: text files with one tokenized sentence per line.
        alignments: one file of links, which are used as they are; or a file of the forward and a
            file of the reverse alignment, which are symmetrized. Links are source-target in both.
        method: symmetrization method, see ``symmetrize``; unused for one file of links.
    Raises:
        UserError: if a file cannot be read, has a malformed line, or has fewer lines than another.
    """
    for number, (source_line, target_line, *given) in read_parallel([source, target, *alignments]):
        source_words, target_words = source_line.split(), target_line.split()
        directions = [
            parse_links(line, len(source_words), len(target_words), path, number)
            for line, path in zip(given, alignments)
        ]
        if len(directions) == 1:
            (links,) = directions
        else:
            forward, reverse = directions
            links = symmetrize(forward, reverse, method)
        yield source_words, target_words, links


def symmetrize(forward: set[Link], reverse: set[Link], method: str) -> set[Link]:
    """Combine the forward and the reverse alignment of a sentence pair.

    Args:
        forward, reverse: links (source position, target position) of both directions.
        method: one of METHODS.
    """
    if method == "union":
        return forward | reverse
    alignment = _GrowingAlignment(forward & reverse)
    if method != "intersection":
        alignment.grow_diag(forward | reverse)
    if "final" in method:
        for direction in (forward, reverse):
            alignment.final(direction, both=method == "grow-diag-final-and")
    return alignment.links


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
                if neighbor in missing and any(self._unaligned(neighbor)):
                    missing.remove(neighbor)
                    self.add(neighbor)
                    heappush(this_pass if neighbor > link else next_pass, neighbor)
            if not this_pass:
                this_pass, next_pass = next_pass, []
                heapify(this_pass)

    def final(self, direction: set[Link], both: bool) -> None:
        """Add links of one direction that have an unaligned word, or two if ``both``."""
        for link in sorted(direction - self.links):
            if (all if both else any)(self._unaligned(link)):
                self.add(link)

    def _unaligned(self, link: Link) -> tuple[bool, bool]:
        """Whether the source word and the target word of a link have no links yet."""
        return link[0] not in self.sources, link[1] not in self.targets
