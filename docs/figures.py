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

from convs2s.experiments.choices import metric_sign  # noqa: E402
from convs2s.models.adl.language.resolve import resolve  # noqa: E402
from convs2s.models.adl.language.spec import Settings  # noqa: E402
from convs2s.pictures import model  # noqa: E402
from convs2s.pictures.svg import CHARACTER, Drawing  # noqa: E402
from docs import fields, hybrids, results, step_figures, training_figures  # noqa: E402
from docs.generated import write_or_check  # noqa: E402

LENGTH = 30
# What scores are called in a figure.
SCORES = {"bleu": "BLEU, test set", "wer": "words that are wrong, %, test set"}


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


def step_of(span: float, parts: int) -> float:
    """A round number that divides a span into about as many parts."""
    part = max(span, 0.1) / parts
    size = 10 ** math.floor(math.log10(part))
    return next(size * each for each in (1, 2, 5, 10) if size * each >= part)


def quality(file: str, subject: str) -> str:
    """The score over the speed of translation; the area of a circle is the number of parameters.

    Args:
        file: path of the experiment's file in ``examples``.
        subject: what is translated, for the description.
    """
    comparison = results.finished(file, baseline=None)
    test, metric = comparison.tests[0], comparison.experiment.metric
    sign = metric_sign(metric)
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
    systems.sort(key=lambda system: sign * system[2])
    drawing = Drawing()
    left, top, width, height = 64, 40, 370, 38 * max(9, len(systems)) - 2
    worst, best = systems[-1][2], systems[0][2]
    score_step = step_of(abs(best - worst), 7)
    low, high = (
        score_step * (math.floor(min(worst, best) / score_step - 0.5)),
        score_step * (math.ceil(max(worst, best) / score_step + 0.5)),
    )
    fastest = max(system[1] for system in systems)
    speed_step = step_of(fastest, 7)
    fastest = speed_step * math.ceil(fastest / speed_step + 0.5)

    def at(speed: float, score: float) -> tuple[float, float]:
        share = (high - score if sign < 0 else score - low) / (high - low)
        return left + width * speed / fastest, top + height * share

    for number in range(round((high - low) / score_step) + 1):
        score = low + number * score_step
        _, y = at(0, score)
        drawing.line((left, y), (left + width, y), kind="grid")
        drawing.text(left - 8, y + 4, f"{score:.1f}", "small", "end")
    for number in range(round(fastest / speed_step) + 1):
        x, _ = at(number * speed_step, low)
        drawing.line((x, top), (x, top + height), kind="grid")
        drawing.text(x, top + height + 16, f"{number * speed_step:.0f}", "small", "middle")
    drawing.text(left, 22, SCORES[metric], "bold")
    drawing.text(left + width / 2, top + height + 36, "sentences/s, beam 5", "bold", "middle")
    labels = left + width + 40
    drawing.text(labels, 22, "system, parameters without embeddings", "bold")
    y = float(top)
    for title, speed, score, millions in systems:
        x, center = at(speed, score)
        drawing.line((x, center), (labels - 14, y + 10), (labels - 4, y + 10), kind="frame")
        drawing.circle(x, center, 6 * math.sqrt(millions), "box far")
        drawing.text(labels, y + 8, title)
        drawing.text(labels, y + 22, f"{score:.2f}, {speed:.0f}/s, {millions:.2f} M", "small quiet")
        y += 38
    longest = max(len(title) for title, *_ in systems)
    size = labels + longest * CHARACTER + 16, top + height + 54
    return drawing.svg(*size, f"Quality, speed and size of {subject}")


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
    "quality.svg": partial(quality, "multi30k/compare.yaml", "the systems on Multi30k"),
    "hybrids.svg": hybrids.figure,
}


def main() -> int:
    """Write the figures, or with ``--check`` name those that are not current."""
    return write_or_check(
        __doc__.splitlines()[0], ((DOCS / name, make()) for name, make in FIGURES.items())
    )


if __name__ == "__main__":
    sys.exit(main())
