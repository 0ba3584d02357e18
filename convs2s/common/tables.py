"""Tables in Markdown and LaTeX from the same cells."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MISSING = "–"

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

    Underscores inside words stay, because they are no markup there.
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

    def latex(self) -> str:
        r"""The table in LaTeX; it needs ``\usepackage{booktabs}``."""

        def text(line: Sequence[str]) -> str:
            return " & ".join(map(escape_latex, line)) + " \\\\\n"

        return (
            f"\\begin{{tabular}}{{l{'r' * (len(self.headers) - 1)}}}\n\\toprule\n"
            f"{text(self.headers)}\\midrule\n{''.join(map(text, self.rows))}"
            "\\bottomrule\n\\end{tabular}\n"
        )


def number(value: float | None, digits: int = 2) -> str:
    """A number with thousands separated; a dash if there is none."""
    return MISSING if value is None else f"{value:,.{digits}f}"


def speed(value: float | None) -> str:
    """A speed with about three significant digits."""
    return number(value, 0 if value is None or value >= 100 else 1)
