"""Draw the figures of the pages: ``python docs/figures.py``.

What each family sees, computes and keeps, and a chart of the published comparison. ``python
docs/figures.py --check`` writes nothing, and fails if a figure is not current.
"""

import math
import statistics
import sys
from collections.abc import Callable
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
    "convs2s.svg": fields.convs2s,
    "convs2s_training.svg": training_figures.convs2s,
    "convs2s_step.svg": step_figures.convs2s,
    "pervasive.svg": fields.pervasive,
    "pervasive_training.svg": training_figures.pervasive,
    "pervasive_step.svg": step_figures.pervasive,
    **{name: partial(adl, name) for name in HYBRIDS},
    "adl_training.svg": training_figures.adl,
    "adl_step.svg": step_figures.adl,
    "quality.svg": quality,
    "hybrids.svg": hybrids.figure,
}


def main() -> int:
    """Write the figures, or with ``--check`` name those that are not current."""
    return write_or_check(
        __doc__.splitlines()[0], ((DOCS / name, make()) for name, make in FIGURES.items())
    )


if __name__ == "__main__":
    sys.exit(main())
