"""Draw the figures of the pages: ``python docs/figures.py``.

What each family sees, computes and keeps, and charts of published comparisons. ``python
docs/figures.py --check`` writes nothing, and fails if a figure is not current.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from convs2s.models.adl.language.resolve import resolve  # noqa: E402
from convs2s.models.adl.language.spec import Settings  # noqa: E402
from convs2s.pictures import model  # noqa: E402
from convs2s.pictures.svg import CHARACTER, Drawing  # noqa: E402
from docs import fields, hybrids, results, step_figures, training_figures  # noqa: E402
from docs.generated import write_or_check  # noqa: E402

LENGTH = 30
# Between two charts, and the title of the axis with the speed of translation.
GAP = 48
TRANSLATION = "sentences/s, beam 5"


class Hybrid(NamedTuple):
    """A model in ADL that a page draws.

    Attributes:
        page: its file.
        encoder, decoder: the definitions.
        dim: channels.
        words: size of the vocabulary.
    """

    page: str
    encoder: str
    decoder: str
    dim: int
    words: int


HYBRIDS = {
    "adl.svg": Hybrid(
        "adl.md",
        "pos -> res_nd(birnn) -> repeat(5, res_nd(mh_dot_self_att) -> res_nd(ffl)) -> norm",
        "pos -> repeat(6, res_nd(cnn(glu)) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm",
        dim=256,
        words=8000,
    ),
    "tutorial_hybrid.svg": Hybrid(
        "tutorial.md",
        "pos -> repeat(4, res_nd(cnn(glu))) -> norm",
        "pos -> repeat(3, res_nd(rnn) -> res_nd(mh_dot_src_att) -> res_nd(ffl)) -> norm",
        dim=128,
        words=884,
    ),
}


def adl(name: str) -> str:
    """The hybrid of a page, by the name of its figure."""
    hybrid = HYBRIDS[name]
    settings = Settings(model_dim=hybrid.dim)
    return model.draw(resolve(hybrid.encoder, hybrid.decoder, settings), hybrid.words, LENGTH)


class Scale(NamedTuple):
    """A horizontal axis, from zero if the smallest value is less than half of the largest.

    Attributes:
        begin, width: where the axis begins, and how long it is.
        first, step, parts: the value at its begin, that between marks, and the number of those.
    """

    begin: float
    width: float
    first: float
    step: float
    parts: int

    @classmethod
    def of(cls, values: Sequence[float], begin: float, width: float) -> "Scale":
        """The axis for some values."""
        low, high = min(values), max(values)
        low = 0.0 if 2 * low < high else low
        step = step_of(high - low, 6)
        first = max(0.0, step * math.floor(low / step - 0.25))
        return cls(begin, width, first, step, math.ceil((high - first) / step + 0.5))

    @property
    def marks(self) -> list[float]:
        """The values at the marks."""
        return [self.first + self.step * count for count in range(self.parts + 1)]

    def at(self, value: float) -> float:
        """Where a value is."""
        return self.begin + self.width * (value - self.first) / (self.step * self.parts)


def step_of(spread: float, largest: int) -> float:
    """The smallest round step that divides a spread into at most ``largest`` parts."""
    steps = (digit * 10.0**power for power in range(-2, 6) for digit in (1, 2, 5))
    return next(step for step in steps if spread / step <= largest)


def quality(file: str, subject: str, axes: dict[str, str]) -> str:
    """Scores over speeds, one chart for each speed, the best score at the top.

    The area of a circle is the number of parameters.

    Args:
        file: path of the experiment's file in ``examples``.
        subject: what the systems do, for the title.
        axes: name of a speed -> title of its axis.
    """
    comparison = results.finished(file, baseline=None)
    test, metric = comparison.tests[0], comparison.experiment.metric
    systems = [
        (
            summary.system.title,
            [summary.speeds[key]["median"] for key in axes],
            statistics.mean(summary.scores(test, metric)),
            (summary.median("parameters_without_embeddings") or 0) / 1e6,
        )
        for summary in comparison.summaries
        if summary.speeds
    ]
    sign = -1 if metric == "wer" else 1
    systems.sort(key=lambda system: -sign * system[2])
    drawing = Drawing()
    left, top, width, height = 64, 40, 370, max(340, 38 * len(systems))
    low, high = (edge(sign * system[2] for system in systems) for edge in (min, max))
    step = step_of(high - low, 5)
    low, high = step * math.floor(low / step - 0.25), step * math.ceil(high / step + 0.25)
    right = left + len(axes) * (width + GAP) - GAP
    labels = right + 40

    def height_of(score: float) -> float:
        return top + height * (high - sign * score) / (high - low)

    for count in range(round((high - low) / step) + 1):
        score = sign * (low + step * count)
        y = height_of(score)
        drawing.line((left, y), (right, y), kind="grid")
        drawing.text(left - 8, y + 4, f"{score:.1f}", "small", "end")
    places = []
    for number, title in enumerate(axes.values()):
        begin = left + number * (width + GAP)
        speeds = [system[1][number] for system in systems]
        scale = Scale.of(speeds, begin, width)
        for speed in scale.marks:
            x, y = scale.at(speed), top + height
            drawing.line((x, top), (x, y), kind="grid")
            drawing.text(x, y + 16, f"{speed:,.0f}", "small", "middle")
        drawing.text(begin + width / 2, top + height + 36, title, "bold", "middle")
        places.append([scale.at(speed) for speed in speeds])
    drawing.text(left, 22, f"{metric.upper()}, test set", "bold")
    drawing.text(labels, 22, "system, parameters without embeddings", "bold")
    y = float(top)
    for row, (title, speeds, score, millions) in enumerate(systems):
        center = height_of(score)
        drawing.line(
            (places[-1][row], center), (labels - 14, y + 10), (labels - 4, y + 10), kind="frame"
        )
        for place in places:
            drawing.circle(place[row], center, 6 * math.sqrt(millions), "box far")
        drawing.text(labels, y + 8, title)
        figures = ", ".join(f"{speed:,.0f}/s" for speed in speeds)
        drawing.text(labels, y + 22, f"{score:.2f}, {figures}, {millions:.2f} M", "small quiet")
        y += 38
    longest = max(len(title) for title, *_ in systems)
    size = labels + longest * CHARACTER + 16, top + height + 54
    return drawing.svg(*size, f"Quality, speed and size of the systems {subject}")


FIGURES: dict[str, Callable[[], str]] = {
    "convs2s.svg": fields.convs2s,
    "convs2s_training.svg": training_figures.convs2s,
    "convs2s_step.svg": step_figures.convs2s,
    "pervasive.svg": fields.pervasive,
    "pervasive_training.svg": training_figures.pervasive,
    "pervasive_step.svg": step_figures.pervasive,
    **{name: partial(adl, name) for name in HYBRIDS},
    "adl_training.svg": training_figures.adl,
    "adl_step.svg": step_figures.adl,
    "quality.svg": partial(
        quality, "multi30k/compare.yaml", "on Multi30k", {"sentences_per_second": TRANSLATION}
    ),
    "hybrids_speed.svg": partial(
        quality,
        hybrids.FILE,
        "on pronunciation",
        {"sentences_per_second": TRANSLATION, "tokens_per_second": "training, tokens/s"},
    ),
    "hybrids.svg": hybrids.figure,
    "hybrids_translation.svg": hybrids.translation_figure,
    "hybrids_translation_en_de.svg": partial(hybrids.translation_figure, "en_de"),
}


def main() -> int:
    """Write the figures, or with ``--check`` name those that are not current."""
    return write_or_check(
        __doc__.splitlines()[0], ((DOCS / name, make()) for name, make in FIGURES.items())
    )


if __name__ == "__main__":
    sys.exit(main())
