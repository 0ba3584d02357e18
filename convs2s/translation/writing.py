"""Writing translations to files, and how far they are written, so that a later run can continue."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TextIO

from ..common.lines import without_end
from .results import (
    REPORT_HEADER,
    Translation,
    alignment_lines,
    is_reported,
    output_lines,
    report_line,
)


@dataclass
class Position:
    """How far a text is translated.

    Attributes:
        lines: the number of lines with a translation.
        checksum: CRC-32 of these lines.
        num_split, num_cut_off: the number of lines that were split, and of translations that may be
            cut off.
    """

    lines: int = 0
    checksum: int = 0
    num_split: int = 0
    num_cut_off: int = 0

    def add(self, translation: Translation) -> None:
        """Count the translation of the next line."""
        self.lines += 1
        self.checksum = _checksum(translation.source, self.checksum)
        self.num_split += translation.num_parts > 1
        self.num_cut_off += translation.is_cut_off

    def pass_over(self, lines: Iterator[str]) -> bool:
        """Read the lines that have a translation, and return whether they are still the same."""
        count = checksum = 0
        for line in islice(lines, self.lines):
            count += 1
            checksum = _checksum(without_end(line), checksum)
        return (count, checksum) == (self.lines, self.checksum)


def _checksum(line: str, before: int) -> int:
    return zlib.crc32(f"{line}\n".encode(), before)


class Writer:
    """Writes translations.

    Args:
        files: open files by their options: --output and, if they are wanted, --alignment and
            --report.
        position: how far they are written; advances with each translation.
        nbest, scores: as for ``results.output_lines``.
        lines_before: the number of lines before the first one of the text, which is part of one.
    """

    def __init__(
        self,
        files: Mapping[str, TextIO],
        position: Position,
        nbest: bool = False,
        scores: bool = False,
        lines_before: int = 0,
    ):
        self.position = position
        self._output = files["--output"]
        self._alignment, self._report = files.get("--alignment"), files.get("--report")
        self._nbest, self._scores = nbest, scores
        self._lines_before = lines_before

    def begin(self) -> None:
        """Write what precedes the first translation."""
        if self._report:
            self._report.write(REPORT_HEADER)

    def write(self, translation: Translation) -> None:
        """Write the translation of the next line."""
        self.position.add(translation)
        number = self._lines_before + self.position.lines
        self._output.writelines(output_lines(translation, number, self._nbest, self._scores))
        if self._alignment:
            self._alignment.writelines(alignment_lines(translation, self._nbest))
        if self._report and is_reported(translation):
            self._report.write(report_line(translation, number))
