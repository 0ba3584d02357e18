"""Draw the figures of the pages: ``python docs/figures.py``.

A figure of each family, and a chart of the published comparison. ``python docs/figures.py --check``
writes nothing, and fails if a figure is not current.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from convs2s.models.adl.language.resolve import resolve  # noqa: E402
from convs2s.models.adl.language.spec import Settings  # noqa: E402
from convs2s.pictures import model  # noqa: E402
from convs2s.pictures.svg import CHARACTER, Drawing  # noqa: E402
from docs import results  # noqa: E402
from docs.generated import write_or_check  # noqa: E402

SOURCE = "ein hund läuft im park </s>".split()
TARGET = "</s> a dog runs in".split()
NEXT = [*TARGET[1:], "the"]
# The model that begins the page on ADL.
HYBRID = (
    "pos -> res_nd(birnn) -> repeat(5, res_nd(mh_dot_self_att) -> res_nd(ffl)) -> norm",
    "pos -> repeat(6, res_nd(cnn(glu)) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm",
)
HYBRID_DIM, WORDS, LENGTH = 256, 8000, 30


def legend(drawing: Drawing, y: float, *entries: tuple[str, str]) -> float:
    """Explain the colors of boxes, one a line.

    Args:
        drawing: what it is painted on.
        y: of the first line.
        entries: the class of each box, and what it is.
    Returns:
        y of the line below.
    """
    for kind, text in entries:
        drawing.rect(20, y - 11, 22, 14, f"box {kind}")
        drawing.text(50, y, text)
        y += 22
    return y


class Nodes:
    """Rows of boxes with one box a token; ``at`` has the middle of each, by row and column.

    Args:
        drawing: what they are painted on.
        tokens: the tokens, which stand below the lowest row.
        left, bottom: x of the first box and y of the lowest row.
        rows: the class of the boxes of each row, from below.
        chosen: the column whose receptive field is shown.
    """

    WIDTH, HEIGHT, ACROSS, UP = 40, 22, 54, 84

    def __init__(
        self,
        drawing: Drawing,
        tokens: Sequence[str],
        left: float,
        bottom: float,
        rows: Sequence[str],
        chosen: int,
    ):
        self.drawing, self.rows, self.columns, self.chosen = drawing, rows, len(tokens), chosen
        self.left, self.bottom = left, bottom
        for column, token in enumerate(tokens):
            drawing.text(self.at(0, column)[0], bottom + 32, token, anchor="middle")

    def at(self, row: int, column: int) -> tuple[float, float]:
        return self.left + self.ACROSS * column + self.WIDTH / 2, self.bottom - self.UP * row

    def draw(self, reach: Sequence[int]) -> None:
        """Draw the boxes, and a line from each to those that it sees: ``reach`` has distances."""
        seen = {self.chosen}
        strong = []
        for row in range(len(self.rows) - 1, 0, -1):
            for column in range(self.columns):
                for below in sorted(column + step for step in reach):
                    if 0 <= below < self.columns:
                        (x0, y0), (x, y) = self.at(row - 1, below), self.at(row, column)
                        line = (x0, y0 - self.HEIGHT / 2), (x, y + self.HEIGHT / 2)
                        if column in seen:
                            strong.append(line)
                        else:
                            self.drawing.line(*line, kind="grid")
            seen = {column + step for column in seen for step in reach}
        for line in strong:
            self.drawing.line(*line)
        for row, kind in enumerate(self.rows):
            for column in range(self.columns):
                x, y = self.at(row, column)
                place = x - self.WIDTH / 2, y - self.HEIGHT / 2
                self.drawing.rect(*place, self.WIDTH, self.HEIGHT, f"box {kind}")


def convs2s() -> str:
    """ConvS2S: two layers of each stack, with the receptive field of one position."""
    drawing = Drawing()
    bottom, chosen = 260, 2
    rows = ("single", "near", "near")
    encoder = Nodes(drawing, SOURCE, 20, bottom, rows, 3)
    decoder = Nodes(drawing, TARGET, 470, bottom, rows, chosen)
    encoder.draw((-1, 0, 1))
    decoder.draw((-2, -1, 0))
    half = Nodes.HEIGHT / 2
    gather = encoder.at(2, encoder.columns - 1)[0] + 60, bottom - 2 * Nodes.UP - 40
    for column in range(encoder.columns):
        x, y = encoder.at(2, column)
        drawing.line((x, y - half), gather, kind="attention")
    for row in (1, 2):
        x, y = decoder.at(row, 0)
        lane = decoder.left - 26
        end = x - Nodes.WIDTH / 2 - 4, y
        drawing.line(gather, (lane, gather[1]), (lane, y), end, kind="attention", head="accent")
    for column, token in enumerate(NEXT):
        x, y = decoder.at(2, column)
        drawing.line((x, y - half), (x, y - half - 18), head="head")
        drawing.text(x, y - half - 24, token, anchor="middle")
    drawing.text(encoder.left, 22, "encoder: convolutions see both sides", "bold")
    drawing.text(decoder.left - 40, 22, "decoder: convolutions see the past", "bold")
    y = legend(
        drawing,
        bottom + 70,
        ("single", "embedding of a token and of its position"),
        ("near", "convolution of width 3, gated linear unit, residual connection"),
        ("source", "attention: each layer of the decoder reads all outputs of the encoder"),
    )
    return drawing.svg(760, y, "ConvS2S: convolutions on both sides, attention in each layer")


def pervasive() -> str:
    """Pervasive attention: the grid, the masked kernel of one cell, and the aggregation."""
    drawing = Drawing()
    left, top, width, height = 80, 66, 52, 36
    row, column = 3, 3
    right, bottom = left + width * len(SOURCE), top + height * len(TARGET)
    for layer in (2, 1):
        x, y = left + 7 * layer, top - 7 * layer
        drawing.rect(x, y, right - left, bottom - top, "frame")
    drawing.rect(left, top, right - left, bottom - top, "paper")
    for t, token in enumerate(TARGET):
        y = top + height * t
        drawing.text(left - 10, y + height / 2 + 4, token, anchor="end")
        for s in range(len(SOURCE)):
            in_kernel = t in (row - 1, row) and abs(s - column) <= 1
            kind = "near" if in_kernel else "single" if t <= row else "paper"
            kind = "far" if (t, s) == (row, column) else kind
            drawing.rect(left + width * s + 2, y + 2, width - 4, height - 4, f"box {kind}")
        x = right + 40
        strength = "attention" if t == row else "grid"
        drawing.line((right + 2, y + height / 2), (x, y + height / 2), kind=strength)
        drawing.rect(x, y + 6, 60, height - 12, "box source")
        drawing.text(x + 30, y + height / 2 + 4, "max", anchor="middle")
        drawing.line((x + 60, y + height / 2), (x + 92, y + height / 2), head="head")
        drawing.text(x + 100, y + height / 2 + 4, NEXT[t])
    for s, token in enumerate(SOURCE):
        drawing.text(left + width * (s + 0.5), bottom + 20, token, anchor="middle")
    drawing.text(left, 24, "grid: source x previous target", "bold")
    drawing.text(right + 40, 24, "aggregation", "bold")
    drawing.text(right + 170, 24, "next token", "bold")
    y = legend(
        drawing,
        bottom + 56,
        ("far", "a cell: embeddings of its source and target token, side by side"),
        ("near", "a convolution of width 3 sees these cells, and no later target position"),
        ("single", "other cells of the same and of earlier target positions"),
        ("source", "aggregation of a row: maximum, average or attention"),
    )
    drawing.text(20, y, "Each layer of the DenseNet reads the grids of all layers before it.")
    return drawing.svg(760, y + 22, "Pervasive attention: convolutions over source and target")


def adl() -> str:
    """The hybrid that begins the page on ADL."""
    return model.draw(resolve(*HYBRID, Settings(model_dim=HYBRID_DIM)), WORDS, LENGTH)


def quality() -> str:
    """BLEU over the speed of translation; the area of a circle is the number of parameters."""
    comparison = results.finished("multi30k/compare.yaml", baseline=None)
    test = comparison.tests[0]
    systems = [
        (
            summary.system.title,
            summary.speeds["sentences_per_second"]["median"],
            statistics.mean(summary.scores(test, "bleu")),
            (summary.median("parameters_without_embeddings") or 0) / 1e6,
        )
        for summary in comparison.summaries
        if summary.speeds
    ]
    systems.sort(key=lambda system: -system[2])
    drawing = Drawing()
    left, top, width, height = 64, 40, 370, 340
    low, high = (edge(system[2] for system in systems) for edge in (min, max))
    low, high = math.floor(2 * low - 0.5) / 2, math.ceil(2 * high + 0.5) / 2
    fastest = 50 * math.ceil(max(system[1] for system in systems) / 50 + 0.5)

    def at(speed: float, bleu: float) -> tuple[float, float]:
        x = left + width * speed / fastest
        return x, top + height * (high - bleu) / (high - low)

    for step in range(int(2 * (high - low)) + 1):
        _, y = at(0, low + step / 2)
        drawing.line((left, y), (left + width, y), kind="grid")
        drawing.text(left - 8, y + 4, f"{low + step / 2:.1f}", "small", "end")
    for speed in range(0, fastest + 1, 50):
        x, y = at(speed, low)
        drawing.line((x, top), (x, y), kind="grid")
        drawing.text(x, y + 16, str(speed), "small", "middle")
    drawing.text(left, 22, "BLEU, test set", "bold")
    drawing.text(left + width / 2, top + height + 36, "sentences/s, beam 5", "bold", "middle")
    labels = left + width + 40
    drawing.text(labels, 22, "system, parameters without embeddings", "bold")
    y = float(top)
    for title, speed, bleu, millions in systems:
        x, center = at(speed, bleu)
        drawing.line((x, center), (labels - 14, y + 10), (labels - 4, y + 10), kind="frame")
        drawing.circle(x, center, 6 * math.sqrt(millions), "box far")
        drawing.text(labels, y + 8, title)
        drawing.text(labels, y + 22, f"{bleu:.2f}, {speed:.0f}/s, {millions:.2f} M", "small quiet")
        y += 38
    longest = max(len(title) for title, *_ in systems)
    size = labels + longest * CHARACTER + 16, top + height + 54
    return drawing.svg(*size, "Quality, speed and size of the systems on Multi30k")


FIGURES: dict[str, Callable[[], str]] = {
    "convs2s.svg": convs2s,
    "pervasive.svg": pervasive,
    "adl.svg": adl,
    "quality.svg": quality,
}


def main() -> int:
    """Write the figures, or with ``--check`` name those that are not current."""
    return write_or_check(
        __doc__.splitlines()[0], ((DOCS / name, make()) for name, make in FIGURES.items())
    )


if __name__ == "__main__":
    sys.exit(main())
