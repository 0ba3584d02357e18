"""Tables in Markdown, in LaTeX and for a terminal from the same cells."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

MISSING = "–"
# The least width of a table's column, in columns of a terminal.
NARROW = 8

# One pass over the text, so that no replacement is escaped again.
LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "–": "--",
}


def escape_markdown(text: str) -> str:
    """Escape the characters that Markdown reads as markup or as the border of a cell.

    Underscores inside words stay, because they are not markup there.
    """
    text = re.sub(r"([\\`*|<>\[\]])", r"\\\1", text)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)
    return re.sub(r"\s+", " ", text)


def escape_latex(text: str) -> str:
    """Escape LaTeX's special characters; minus signs and ± become math."""
    text = "".join(LATEX.get(character, character) for character in text)
    return re.sub(r"(?<![\w-])([-+])(?=\d)", r"$\1$", text)


def markdown_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already; ``Table`` is for plain text.

    Args:
        titles: the titles of the columns.
        rows: the cells of each line.
    Returns:
        The lines, the last one without a line end.
    """
    head, *lines = (f"| {' | '.join(row)} |" for row in (titles, *rows))
    return "\n".join([head, "|" + "---|" * len(titles), *lines])


@dataclass(frozen=True)
class Table:
    """A table of plain text; its first column is aligned to the left, the others to the right.

    Attributes:
        headers: the titles of the columns.
        rows: the cells of each line.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table in Markdown, with columns padded to the same width."""
        lines = [[escape_markdown(cell) for cell in row] for row in (self.headers, *self.rows)]
        widths = [max(3, *(len(cell) for cell in column)) for column in zip(*lines)]

        def text(line: Sequence[str]) -> str:
            first, *others = zip(line, widths)
            cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
            return f"| {' | '.join(cells)} |\n"

        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        return "".join(map(text, [lines[0], rule, *lines[1:]]))

    def aligned(self, width: int) -> str:
        """The table for a terminal of a given width: the widest cells are wrapped to fit.

        Args:
            width: characters in a line.
        """
        lines = [self.headers, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines)]
        while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > NARROW:
            widths[widths.index(max(widths))] -= 1
        text = ""
        for line in lines:
            wrapped = [textwrap.wrap(cell, size) or [""] for cell, size in zip(line, widths)]
            for parts in zip_longest(*wrapped, fillvalue=""):
                first, *others = zip(parts, widths)
                cells = [first[0].ljust(first[1]), *(part.rjust(size) for part, size in others)]
                text += "  ".join(cells).rstrip() + "\n"
            if line is self.headers:
                text += "  ".join("─" * size for size in widths) + "\n"
        return text

    def latex(self) -> str:
        r"""The table in LaTeX; it needs ``\usepackage{booktabs}``."""

        def text(line: Sequence[str]) -> str:
            return " & ".join(map(escape_latex, line)) + " \\\\\n"

        return (
            f"\\begin{{tabular}}{{l{'r' * (len(self.headers) - 1)}}}\n\\toprule\n"
            f"{text(self.headers)}\\midrule\n{''.join(map(text, self.rows))}"
            "\\bottomrule\n\\end{tabular}\n"
        )


def show(table: Table) -> str:
    """A table for standard output: aligned to fit the width of a terminal, otherwise Markdown."""
    if not sys.stdout.isatty():
        return table.markdown()
    return table.aligned(shutil.get_terminal_size().columns)


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separated; a dash if there is none."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def speed(value: float | None) -> str:
    """A speed with about three significant digits."""
    return number(value, 0 if value is None or value >= 100 else 1)
