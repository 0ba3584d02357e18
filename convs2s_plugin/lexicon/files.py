"""Lexicon files: which target words translate a source word, and how probably.

    zwei pair 0.0313
    zwei two 0.9102

One entry a line, ``source target probability`` separated by blanks. The entries of a source word
follow one another, the most probable one last: fairseq's ``--replace-unk``, which reads the first
two columns and lets a later line win over an earlier one, takes the best translation of each word.

Knows neither torch nor fairseq.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..text_files import excerpt, line_error, read_lines, write_whole


class Entry(NamedTuple):
    """A translation of a word: p(target | source), above 0 and at most 1."""

    source: str
    target: str
    probability: float


def read_lexicon(path: str) -> Iterator[Entry]:
    """The entries of a lexicon file, one by one, in the order of its lines.

    Args:
        path: the file; a name ending in ``.gz`` is unpacked.
    Raises:
        UserError: where the file cannot be read, is not UTF-8, or has a line that is no entry.
    """
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) != 3:
            raise line_error(
                *(path, number),
                f"expected 'source target probability', found {len(fields)} fields in "
                f"{excerpt(line)}",
            )
        source, target, text = fields
        try:
            probability = float(text)
        except ValueError:
            probability = 0.0
        if not 0.0 < probability <= 1.0:
            raise line_error(
                *(path, number),
                f"the probability is {excerpt(text)}, but must be a number above 0 and at most 1",
            )
        yield Entry(source, target, probability)


def read_translations(path: str) -> dict[str, str]:
    """The translation of each source word: the last that a file gives, as fairseq reads it.

    Args:
        path: a lexicon, or a dictionary of fairseq's with lines ``source target``.
    Raises:
        UserError: where the file cannot be read, is not UTF-8, or has a line of fewer words.
    """
    translations = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) < 2:
            raise line_error(*(path, number), f"expected 'source target', found {excerpt(line)}")
        translations[fields[0]] = fields[1]
    return translations


def write_lexicon(path: str, entries: Iterable[Entry]) -> int:
    """Write a lexicon file, or nothing at all.

    Args:
        path: the file.
        entries: in the order of the file: by source word, each one's best entry last.
    Returns:
        The number of entries.
    Raises:
        UserError: where the file cannot be written.
    """
    count = 0
    with write_whole(path) as file:
        for source, target, probability in entries:
            file.write(f"{source} {target} {probability:.4g}\n")
            count += 1
    return count
