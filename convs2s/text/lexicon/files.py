"""Lexicon files: the translations of each source word, with their probabilities.

    zwei pair 0.0313
    zwei two 0.9102

Each line is an entry ``source target probability``, separated by blanks. The entries of a source
word are consecutive, and the most probable one is last. fairseq's ``--replace-unk`` can therefore
read the file: it reads the first two columns, and a later line replaces an earlier one of the same
    word.

Needs neither torch nor fairseq.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...common.lines import excerpt
from ...common.output_files import atomic_write
from ...common.text_files import line_error, read_lines


class Entry(NamedTuple):
    """A translation of a source word.

    Attributes:
        source: the source word.
        target: its translation.
        probability: p(target | source), above 0 and at most 1.
    """

    source: str
    target: str
    probability: float


def read_lexicon(path: str) -> Iterator[Entry]:
    """Read the entries of a lexicon file one by one, in the order of its lines.

    Args:
        path: the file; it is unpacked if its name ends in ``.gz``.
    Raises:
        UserError: if the file cannot be read, is not UTF-8, or has a malformed line.
    """
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) != 3:
            raise line_error(
                path,
                number,
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
                path,
                number,
                f"the probability is {excerpt(text)}, but must be a number above 0 and at most 1",
            )
        yield Entry(source, target, probability)


def read_translations(path: str) -> dict[str, str]:
    """Read one translation of each source word: the last one in the file, as fairseq does.

    Args:
        path: a lexicon file, or an alignment dictionary of fairseq with lines ``source target``.
    Raises:
        UserError: if the file cannot be read, is not UTF-8, or has a line of fewer than two words.
    """
    translations = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) < 2:
            raise line_error(path, number, f"expected 'source target', found {excerpt(line)}")
        translations[fields[0]] = fields[1]
    return translations


def write_lexicon(path: str, entries: Iterable[Entry]) -> int:
    """Write a lexicon file; if that fails, leave no partial file.

    Args:
        path: the file.
        entries: in the order of the file: grouped by source word, the best entry last.
    Returns:
        The number of entries.
    Raises:
        UserError: if the file cannot be written.
    """
    count = 0
    with atomic_write(path) as file:
        for source, target, probability in entries:
            file.write(f"{source} {target} {probability:.4g}\n")
            count += 1
    return count
