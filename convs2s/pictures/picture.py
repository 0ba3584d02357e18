"""Heat maps with matplotlib, one panel for each sentence, layer and head; and their fonts."""

import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..nn.attention import MEAN
from .document import Document, MapEntry, SentenceEntry
from .svg import allowed

CELL_INCHES = 0.36
LABEL_INCHES = 1.5
TITLE_INCHES = 0.35
# Panels are side by side up to this width.
ROW_INCHES = 20.0
# The longest side of a picture, in inches at 150 dots per inch; matplotlib draws no larger ones.
MAX_INCHES = 430.0
COLORS = {False: "Blues", True: "PuOr"}
BAR_LABELS = {False: "attention", True: "contribution to the logit"}
# A font of boxes with code points in them, which has every character.
BOXES = "last resort"
# Control characters, invisible ones and halves of characters.
NOT_DRAWN = ("Cc", "Cf", "Cs")


class Panel(NamedTuple):
    """One heat map.

    Attributes:
        title: layer and head, below the model if there are several; empty for none.
        rows: Q tokens.
        columns: K tokens.
        weights: Q x K.
        signed: whether weights may be negative.
    """

    title: str
    rows: list[str]
    columns: list[str]
    weights: list[list[float]]
    signed: bool

    @property
    def largest(self) -> float:
        """The largest absolute weight."""
        return max(abs(weight) for row in self.weights for weight in row)


def plot(pyplot: Any, content: Document) -> Any:
    """Return a figure of matplotlib with one panel for each sentence, layer and head.

    Args:
        pyplot: ``matplotlib.pyplot``.
        content: what it shows.
    Raises:
        UserError: if the figure would be too large.
    """
    grid = _grid(content)
    columns = max(map(len, grid))
    widths = [
        max(len(row[column].columns) for row in grid if column < len(row))
        for column in range(columns)
    ]
    heights = [max(len(panel.rows) for panel in row) for row in grid]
    above = sum(max(map(_inches_above, row)) for row in grid)
    size = (
        CELL_INCHES * sum(widths) + LABEL_INCHES * columns + 0.8,
        CELL_INCHES * sum(heights) + above,
    )
    if max(size) > MAX_INCHES:
        raise UserError(
            f"The picture would be {size[0]:.0f} x {size[1]:.0f} inches: choose fewer sentences, "
            "--layers or --heads, or write a page (--output FILE.html)."
        )
    figure, axes = pyplot.subplots(
        len(grid),
        columns,
        squeeze=False,
        layout="constrained",
        figsize=size,
        gridspec_kw={"width_ratios": widths, "height_ratios": heights},
    )
    panels = [panel for row in grid for panel in row]
    largest = {
        signed: max((panel.largest for panel in panels if panel.signed == signed), default=0.0)
        for signed in COLORS
    }
    images = {}
    for row, line in zip(grid, axes):
        for panel, axis in zip(row, line):
            images[panel.signed] = _plot_panel(axis, panel, largest[panel.signed])
        for axis in line[len(row) :]:
            axis.axis("off")
    for signed, image in sorted(images.items()):
        bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02)
        bar.set_label(BAR_LABELS[signed], fontsize=8, color="0.35")
        bar.ax.tick_params(labelsize=7, length=0, colors="0.35")
        bar.outline.set_visible(False)
    return figure


def _grid(content: Document) -> list[list[Panel]]:
    """The panels in rows; if there are several for a sentence, each sentence starts a row."""
    by_sentence = [_panels(sentence, content["models"]) for sentence in content["sentences"]]
    if all(len(panels) == 1 for panels in by_sentence):
        single = [panel._replace(title="") for (panel,) in by_sentence]
        return _rows(single, 1 if len(single) == 1 else 2)
    rows: list[list[Panel]] = []
    for panels in by_sentence:
        width = CELL_INCHES * max(len(panel.columns) for panel in panels) + LABEL_INCHES
        lines = -(-len(panels) // max(1, int(ROW_INCHES / width)))
        rows += _rows(panels, -(-len(panels) // lines))
    return rows


def _inches_above(panel: Panel) -> float:
    """Room for the labels above a panel, which are rotated, and for its title."""
    if not panel.title:
        return LABEL_INCHES
    title = TITLE_INCHES * len(panel.title.splitlines())
    return title + min(LABEL_INCHES, 0.3 + 0.07 * max(map(len, panel.columns)))


def _rows(panels: Sequence[Panel], columns: int) -> list[list[Panel]]:
    return [list(panels[start : start + columns]) for start in range(0, len(panels), columns)]


def _panels(sentence: SentenceEntry, models: list[str]) -> list[Panel]:
    return [
        Panel(
            _title(entry, head, models),
            sentence[entry["queries"]],  # type: ignore[literal-required]
            sentence[entry["keys"]],  # type: ignore[literal-required]
            weights,
            entry["signed"],
        )
        for entry in sentence["maps"]
        for head, weights in zip(entry["heads"], entry["weights"])
    ]


def _title(entry: MapEntry, head: str, models: list[str]) -> str:
    title = entry["description"]
    if title != f"decoder layer {entry['layer']}":
        title = f"{entry['name']}: {title}"
    if head == MEAN and entry["layer"] != MEAN:
        title += ", mean of heads"
    elif len(entry["heads"]) > 1 or head not in ("1", MEAN):
        title += f", head {head}"
    return title if len(models) == 1 else f"{models[entry['model']]}\n{title}"


def _plot_panel(axis: Any, panel: Panel, largest: float) -> Any:
    image = axis.imshow(
        panel.weights,
        cmap=COLORS[panel.signed],
        vmin=-largest if panel.signed else 0.0,
        vmax=largest,
    )
    if panel.title:
        axis.set_title(allowed(panel.title), fontsize=9, color="0.25", parse_math=False)
    # Tokens such as $ are not formulas.
    rows, columns = ([*map(allowed, tokens)] for tokens in (panel.rows, panel.columns))
    axis.set_yticks(range(len(rows)), rows, parse_math=False)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=9)
    rotated = {"rotation": 45, "ha": "left", "va": "center", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(columns)), columns, parse_math=False, **rotated)
    axis.set_xticks([x - 0.5 for x in range(len(columns) + 1)], minor=True)
    axis.set_yticks([y - 0.5 for y in range(len(rows) + 1)], minor=True)
    axis.grid(which="minor", color="white", linewidth=1.5)
    axis.tick_params(which="minor", length=0)
    axis.spines[:].set_visible(False)
    return image


def choose_fonts(manager: Any, texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Find fonts for texts.

    Args:
        manager: ``matplotlib.font_manager``.
        texts: what is to be drawn.
    Returns:
        The names of fonts, the default first, for ``font.family``; and the characters that none
        has, in the order of their code points.
    """
    characters = {
        each
        for each in set("".join(texts))
        if not each.isspace() and unicodedata.category(each) not in NOT_DRAWN
    }
    default = manager.FontProperties()
    names = list(default.get_family())
    missing = characters - _characters(manager, manager.findfont(default))
    if missing:
        # Some fonts may be newer than matplotlib's list of fonts.
        known = {entry.fname for entry in manager.fontManager.ttflist}
        for path in sorted(set(manager.findSystemFonts()) - known):
            # matplotlib also skips fonts that it cannot read.
            with suppress(OSError, RuntimeError):
                manager.fontManager.addfont(path)
    # The fonts with some of the missing characters: name -> those that it has.
    found: dict[str, set[str]] = {}
    fonts = {entry.fname: entry.name for entry in manager.fontManager.ttflist if missing}
    for path, name in fonts.items():
        if not name.lower().startswith(BOXES):
            with suppress(OSError, RuntimeError):
                if has := missing & _characters(manager, path):
                    found.setdefault(name, set()).update(has)
    while missing and found:
        name = max(sorted(found), key=lambda name: len(found[name] & missing))
        # Of several fonts with this name, matplotlib uses one.
        drawn = _characters(manager, manager.findfont(manager.FontProperties(family=[name])))
        del found[name]
        if missing & drawn:
            names.append(name)
            missing -= drawn
    return names, sorted(missing)


def _characters(manager: Any, path: str) -> set[str]:
    """The characters of a font; none if it has pictures of one size in place of outlines."""
    font = manager.get_font(path)
    return set(map(chr, font.get_charmap())) if font.scalable else set()
