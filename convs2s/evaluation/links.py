"""The alignment error rate against gold links.

Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", Computational
Linguistics 29(1), 2003, section 6.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..common.errors import UserError
from ..common.lines import excerpt
from ..common.tables import Table, number
from ..common.text_files import line_error, read_lines, read_parallel

Link = tuple[int, int]

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")


class GoldLinks(NamedTuple):
    """The gold links of a sentence pair.

    Attributes:
        sure: links that must be found.
        possible: links that may be found; all sure links are among them.
    """

    sure: set[Link]
    possible: set[Link]


class AlignmentScores(NamedTuple):
    """How well links agree with gold links, in percent.

    Attributes:
        precision: share of the links that are possible.
        recall: share of the sure links that were found.
        error_rate: the alignment error rate.
    """

    precision: float
    recall: float
    error_rate: float


def parse_gold(line: str, path: str, number: int, first: int = 0) -> GoldLinks:
    """Parse a line of gold links: ``0-0`` is sure, ``1p2`` or ``1?2`` only possible.

    Args:
        line: links source-target, separated by blanks.
        path, number: file and line number, for errors.
        first: the number of the first position, 0 or 1.
    Raises:
        UserError: if a link is malformed.
    """
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if match is None or min(int(match[1]), int(match[3])) < first:
            raise line_error(
                path,
                number,
                "expected links such as 0-0 (sure) or 1p2 (possible), counted from "
                f"{first}, found {excerpt(text)}",
            )
        link = int(match[1]) - first, int(match[3]) - first
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(sure, possible)


def read_gold(path: str, first: int = 0) -> list[GoldLinks]:
    """Read a file of gold links; see ``parse_gold``."""
    return [
        parse_gold(line, path, number, first)
        for number, line in enumerate(read_lines(path), start=1)
    ]


def read_links(path: str, gold_path: str) -> list[set[Link]]:
    """Read the links of a system: ``0-0 1-2``, source-target, counted from 0.

    Args:
        path: the file.
        gold_path: the file of the gold links, which must have the same number of lines.
    Raises:
        UserError: if a link is malformed, or the numbers of lines differ.
    """
    return [
        parse_gold(line, path, number).possible
        for number, (line, _) in read_parallel([path, gold_path])
    ]


def alignment_scores(links: Iterable[set[Link]], gold: Iterable[GoldLinks]) -> AlignmentScores:
    """Score links against gold links, over all sentence pairs together.

    Raises:
        UserError: if there are neither links nor sure gold links.
    """
    found = in_sure = in_possible = sure = 0
    for each, (wanted, allowed) in zip(links, gold):
        found += len(each)
        sure += len(wanted)
        in_sure += len(each & wanted)
        in_possible += len(each & allowed)
    if found + sure == 0:
        raise UserError("There are no links to score, neither of the system nor in the gold file.")
    return AlignmentScores(
        precision=100 * in_possible / found if found else 100.0,
        recall=100 * in_sure / sure if sure else 100.0,
        error_rate=100 * (1 - (in_sure + in_possible) / (found + sure)),
    )


def alignment_table(scores: Mapping[str, AlignmentScores]) -> Table:
    """Precision, recall and error rate of each system's links."""
    rows = [
        [name, number(each.precision), number(each.recall), number(each.error_rate)]
        for name, each in scores.items()
    ]
    return Table(["links", "precision", "recall", "alignment error rate"], rows)
