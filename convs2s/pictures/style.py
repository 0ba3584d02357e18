"""What all plots share: colors and axes."""

from typing import Any

# Okabe and Ito's colors, which differ for color-blind readers too, and markers beside them.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def color(number: int) -> str:
    """The color of the n-th line."""
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    """The marker of the n-th line, which changes with its color."""
    return MARKERS[number % len(MARKERS)]


def label_axes(axis: Any, x: str, y: str) -> None:
    """Name the axes, and draw a light grid without a frame."""
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.grid(color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
