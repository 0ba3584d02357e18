"""Links between words in Pharaoh format: ``0-0 1-2 2-1``, source-target, counted from 0."""

import re
from collections.abc import Iterator, Sequence

from ..text_files import excerpt, line_error, read_parallel
from .symmetrize import Link, symmetrise

AlignedPair = tuple[list[str], list[str], set[Link]]

_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")


def parse_links(
    line: str, source_length: int, target_length: int, path: str, number: int
) -> set[Link]:
    """Read the links of one sentence pair.

    Args:
        line: the links, separated by blanks; none is allowed.
        source_length, target_length: words of the two sentences.
        path, number: where the line stands, for messages.
    Returns:
        Pairs of a source and a target position, counted from 0.
    Raises:
        UserError: where something is not a link, or a position is past its sentence's end.
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
                f"the link {text} points past a sentence's end: the source has {source_length} "
                f"words, the target {target_length}, and positions are counted from 0",
            )
        links.add((source, target))
    return links


def read_aligned(
    source: str, target: str, alignments: Sequence[str], method: str
) -> Iterator[AlignedPair]:
    """Sentence pairs with the links that files give, one by one.

    Args:
        source, target: text files, one tokenised sentence a line.
        alignments: one file of links, which are taken as they are, or two (forward and reverse,
            both source-target), which are symmetrised.
        method: of ``symmetrise``; means nothing for one file.
    Returns:
        Source words, target words, links.
    Raises:
        UserError: where a file cannot be read, ends before another one or has a wrong line.
    """
    for number, (source_line, target_line, *given) in read_parallel([source, target, *alignments]):
        words, others = source_line.split(), target_line.split()
        links = [
            parse_links(line, len(words), len(others), path, number)
            for line, path in zip(given, alignments)
        ]
        if len(links) == 1:
            yield words, others, links[0]
        else:
            forward, reverse = links
            yield words, others, symmetrise(forward, reverse, method)
