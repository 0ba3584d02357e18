"""The study of hybrids: its figures and a table of its languages, from the published runs."""

import statistics
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from convs2s.common.tables import Table, number
from convs2s.common.text_files import read_sentences
from convs2s.evaluation.significance import errors, over_data_sets
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.tables import p_value
from convs2s.pictures.svg import CHARACTER, Drawing, longest
from docs import results, runs

FILE = "hybrids/pronunciation.yaml"
TRANSLATION = "hybrids/multi30k.yaml"
# The models of the figures; within each of the first two groups, they differ in one layer.
GROUPS = {
    "encoders, with self-attention in the decoder": (
        *("cnn_self_att", "self_att_self_att", "dynamic_self_att", "recurrence_self_att"),
        *("gla_self_att", "mamba_self_att", "sum_self_att"),
    ),
    "decoders, behind a CNN encoder": (
        "cnn_self_att",
        "cnn_cnn",
        "cnn_ssru",
        "cnn_gla",
        "cnn_none",
    ),
    "the best of both": ("cnn_self_att", "sum_self_att", "cnn_ssru", "sum_ssru"),
}

# An output with so many phones too many repeats some without end.
TOO_LONG = 20


class Compared(NamedTuple):
    """A system beside the baseline.

    Attributes:
        title: the system's.
        mean: its mean score.
        differences: those of its languages or training runs to the baseline's.
    """

    title: str
    mean: float
    differences: tuple[float, ...]


class Rates(NamedTuple):
    """The word error rates of a system, in percent.

    Attributes:
        compared: those over all test words, and of the languages.
        too_long: test words with more than ``TOO_LONG`` phones too many.
    """

    compared: Compared
    too_long: float


@cache
def rates() -> dict[str, Rates]:
    """The published systems, in the order of the experiment; means over their seeds."""
    experiment = read_experiment(results.EXAMPLES / FILE)
    # The test set has the same number of words of each language, one language after the other.
    languages = len(read_experiment(results.EXAMPLES / "pronunciation/benchmark.yaml").data.sets)
    wrong, too_long = {}, {}
    with TemporaryDirectory() as folder:
        out = Path(folder)
        runs.unpack(runs.name_of(FILE), out)
        references = [*read_sentences(str(out / "references" / "test"))]
        for name, system in experiment.systems.items():
            paths = [out / "runs" / f"{name}.{seed}" / "test.hyp" for seed in system.seeds]
            if all(path.exists() for path in paths):
                outputs = [[*read_sentences(str(path))] for path in paths]
                counts = [errors(output, references)[:, 0] for output in outputs]
                wrong[name] = 100 * np.mean(counts, axis=0).reshape(languages, -1).mean(1)
                too_long[name] = statistics.mean(
                    sum(map(_is_too_long, output, references)) for output in outputs
                )
    base = wrong[experiment.baseline]
    return {
        name: Rates(
            Compared(experiment.systems[name].title, float(np.mean(each)), (*(each - base),)),
            too_long[name],
        )
        for name, each in wrong.items()
    }


def _is_too_long(output: str, reference: str) -> bool:
    return len(output.split()) > len(reference.split()) + TOO_LONG


def repetitions() -> str:
    """The mean number of words that are much too long, by what the decoder has."""
    rows = []
    for title, has_attention in (("self-attention", True), ("another layer, or none", False)):
        found = [
            each.too_long
            for name, each in rates().items()
            if name.endswith("_self_att") == has_attention
        ]
        rows.append((title, str(len(found)), number(statistics.mean(found), 1)))
    titles = ("Decoder", "Models", f"Words more than {TOO_LONG} phones too long")
    return Table(titles, rows).markdown().rstrip("\n")


def by_language() -> str:
    """In how many languages each system is better and worse than the baseline, and the p-value."""
    rows = []
    for (title, mean, differences), _ in rates().values():
        if any(differences):
            p = over_data_sets(differences)
            rows.append(
                (
                    title,
                    number(mean),
                    number(statistics.median(differences)),
                    str(sum(difference < 0 for difference in differences)),
                    str(sum(difference > 0 for difference in differences)),
                    "below 0.001" if p < 0.001 else p_value(p),
                )
            )
    titles = ("System", "WER test", "Median difference", "Better in", "Worse in", "p, languages")
    return Table(titles, rows).markdown().rstrip("\n")


def figure() -> str:
    """For each system, the difference of each language's error rate to the baseline's."""
    return _draw(
        {name: each.compared for name, each in rates().items()},
        "words that are wrong: difference to the baseline, %",
        "large: mean; small: languages",
        "Error rates of hybrids in 15 languages",
    )


def translation_figure(direction: str = "") -> str:
    """For each system, the difference of each training run's BLEU to the baseline's mean.

    Args:
        direction: the languages, such as ``en_de``, if they are not the experiment's.
    """
    comparison = results.finished(TRANSLATION, direction)
    data = comparison.experiment.data
    languages = direction or f"{data.source}_{data.target}"
    (test,) = comparison.tests
    scores = {each.system.name: each.scores(test, "bleu") for each in comparison.summaries}
    base = statistics.mean(scores[comparison.experiment.baseline])
    return _draw(
        {
            name: Compared(
                comparison.experiment.systems[name].title,
                statistics.mean(each),
                (*(score - base for score in each),),
            )
            for name, each in scores.items()
        },
        "BLEU: difference to the baseline",
        "large: mean; small: training runs",
        f"BLEU of hybrids on Multi30k, {languages.replace('_', '-')}",
        higher_is_better=True,
    )


def _draw(
    systems: dict[str, Compared],
    heading: str,
    legend: str,
    title: str,
    higher_is_better: bool = False,
) -> str:
    """The groups of systems, the best of each first, with their means and differences."""
    shown = {
        title: sorted(
            (systems[name] for name in names if name in systems),
            key=lambda each: each.mean,
            reverse=higher_is_better,
        )
        for title, names in GROUPS.items()
    }
    values = [value for group in shown.values() for each in group for value in each.differences]
    low, high = int(min(values) // 2) * 2, int(-(-max(values) // 2)) * 2
    left = longest([each.title for each in systems.values()]) + 84
    width, row, space, top = 440, 24, 40, 34.0
    bottom = top + sum(space + row * len(group) for group in shown.values())

    def at(value: float) -> float:
        return left + width * (value - low) / (high - low)

    drawing = Drawing()
    drawing.text(left + width / 2, 20, heading, "bold", "middle")
    for value in range(low, high + 1, 2):
        drawing.line((at(value), top), (at(value), bottom), kind="grid" if value else "frame")
        drawing.text(at(value), bottom + 16, f"{value:+d}" if value else "0", "small", "middle")
    y = top
    for group_title, group in shown.items():
        drawing.text(8, y + space / 2 + 4, group_title, "bold")
        y += space
        for each in group:
            drawing.text(8, y + 4, each.title)
            drawing.text(left - 16, y + 4, number(each.mean), "", "end")
            for value in each.differences:
                drawing.circle(at(value), y, 3, "box far")
            drawing.circle(at(statistics.mean(each.differences)), y, 5, "accent")
            y += row
    drawing.text(8, bottom + 16, legend, "small quiet")
    return drawing.svg(left + width + 2 * CHARACTER, y + 28, title)
