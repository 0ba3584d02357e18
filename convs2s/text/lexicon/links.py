"""Word alignment links in Pharaoh format: ``0-0 1-2 2-1``, source-target, counted from 0."""

import re
from collections.abc import Iterator, Sequence

from ...common.text_files import excerpt, line_error, read_parallel
from .symmetrize import Link, symmetrize

# Source words, target words, and the links between them.
AlignedPair = tuple[list[str], list[str], set[Link]]

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
                *(path, number),
                "expected links 'source-target' such as 0-0 1-2 (Pharaoh format), found "
                f"{excerpt(text)}",
            )
        source, target = int(match[1]), int(match[2])
        if source >= source_length or target >= target_length:
            raise line_error(
                *(path, number),
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
