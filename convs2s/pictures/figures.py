"""What all plots share: matplotlib, colors, axes and the writing of files."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.output_files import atomic_path
from .svg import allowed

FORMATS = (".png", ".pdf", ".svg")
# Okabe and Ito's colors, which color-blind readers can tell apart, and markers to go with them.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# The scores of experiments.
TITLES = {"bleu": "BLEU", "wer": "word error rate (%)"}
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def check_format(path: str, formats: Sequence[str] = FORMATS) -> None:
    """Check that a file's name is one for a plot.

    Args:
        path: the file.
        formats: the allowed suffixes (FORMATS).
    Raises:
        UserError: if it does not end in one of them.
    """
    if Path(path).suffix.lower() not in formats:
        raise UserError(f"--output is {path}: its name must end in {', '.join(formats)}.")


def import_pyplot(display: bool = False) -> Any:
    """Import matplotlib.pyplot.

    Args:
        display: whether to keep its backend, which may be that of a notebook, in place of one that
            needs no display (False).
    Raises:
        UserError: if matplotlib is not installed.
    """
    # Importing fairseq enables the debug messages of all libraries, and matplotlib has many.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            'Plotting needs matplotlib: run `pip install "convs2s-plugin[plot]"`.'
        ) from None
    if not display:
        matplotlib.use("Agg")
    from matplotlib import pyplot

    # The backend of a notebook starts now: within `rc_context`, it would lose its settings.
    pyplot.draw_if_interactive()
    return pyplot


def save_figure(figure: Any, path: str, **options: Any) -> None:
    """Write a figure of matplotlib.

    Args:
        figure: the figure.
        path: a file that ``check_format`` accepts.
        options: further options of ``savefig``.
    Raises:
        UserError: if the file cannot be written.
    """
    with atomic_path(path) as partial:
        figure.savefig(partial, format=Path(path).suffix[1:].lower(), dpi=150, **options)


def color(number: int) -> str:
    """The color of the n-th line."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """The marker of the n-th line, which changes with its color.

    Lines of one color have different markers.
    """
    return MARKERS[(number + number // len(COLORS)) % len(MARKERS)]


def literal(text: str) -> str:
    """A name for matplotlib, which would read dollar signs as those of a formula."""
    text = allowed(text).replace("$", r"\$")
    # Legends omit lines whose names are empty or begin with an underscore.
    return f" {text}" if text[:1] in ("", "_") else text


def titles_of(systems: Mapping[str, str]) -> dict[str, str]:
    """The title of each system by its name, which follows titles that several have."""
    titles = [*systems.values()]
    return {
        name: title if titles.count(title) == 1 else f"{title} ({name})"
        for name, title in systems.items()
    }


def label_axes(axis: Any, x: str, y: str) -> None:
    """Name the axes, and draw a light grid without a frame."""
    axis.set_xlabel(literal(x))
    axis.set_ylabel(literal(y))
    axis.grid(color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
