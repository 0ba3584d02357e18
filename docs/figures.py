"""Draw the figures of the pages: ``python docs/figures.py``.

What each family sees, computes and keeps, and charts of published comparisons. ``python
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


def step_of(spread: float, largest: int) -> float:
    """The smallest round step that divides a spread into at most ``largest`` parts."""
    steps = (digit * 10.0**power for power in range(-2, 6) for digit in (1, 2, 5))
    return next(step for step in steps if spread / step <= largest)


def quality(file: str, subject: str) -> str:
    """Scores over the speed of translation, the best at the top.

    The area of a circle is the number of parameters.

    Args:
        file: path of the experiment's file in ``examples``.
        subject: what the systems do, for the title.
    """
    comparison = results.finished(file, baseline=None)
    test, metric = comparison.tests[0], comparison.experiment.metric
    systems = [
        (
            summary.system.title,
            summary.speeds["sentences_per_second"]["median"],
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
    fastest = max(system[1] for system in systems)
    speed_step = step_of(fastest, 6)
    fastest = speed_step * math.ceil(fastest / speed_step + 0.5)

    def at(speed: float, score: float) -> tuple[float, float]:
        x = left + width * speed / fastest
        return x, top + height * (high - sign * score) / (high - low)

    for count in range(round((high - low) / step) + 1):
        score = sign * (low + step * count)
        _, y = at(0, score)
        drawing.line((left, y), (left + width, y), kind="grid")
        drawing.text(left - 8, y + 4, f"{score:.1f}", "small", "end")
    for count in range(round(fastest / speed_step) + 1):
        x, y = left + width * count * speed_step / fastest, top + height
        drawing.line((x, top), (x, y), kind="grid")
        drawing.text(x, y + 16, f"{count * speed_step:.0f}", "small", "middle")
    drawing.text(left, 22, f"{metric.upper()}, test set", "bold")
    drawing.text(left + width / 2, top + height + 36, "sentences/s, beam 5", "bold", "middle")
    labels = left + width + 40
    drawing.text(labels, 22, "system, parameters without embeddings", "bold")
    y = float(top)
    for title, speed, score, millions in systems:
        x, center = at(speed, score)
        drawing.line((x, center), (labels - 14, y + 10), (labels - 4, y + 10), kind="frame")
        drawing.circle(x, center, 6 * math.sqrt(millions), "box far")
        drawing.text(labels, y + 8, title)
        figures = f"{score:.2f}, {speed:,.0f}/s, {millions:.2f} M"
        drawing.text(labels, y + 22, figures, "small quiet")
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
    "quality.svg": partial(quality, "multi30k/compare.yaml", "on Multi30k"),
    "hybrids.svg": hybrids.figure,
}


def main() -> int:
    """Write the figures, or with ``--check`` name those that are not current."""
    return write_or_check(
        __doc__.splitlines()[0], ((DOCS / name, make()) for name, make in FIGURES.items())
    )


if __name__ == "__main__":
    sys.exit(main())
