"""The tables of an evaluation in Markdown."""

from collections.abc import Mapping

from ..common.tables import Table, number
from .comparison import Evaluation, Result
from .links import AlignmentScores


def main_table(evaluation: Evaluation) -> Table:
    """One line for each system: scores, with the p-value of each difference from the first one."""
    names = list(evaluation.results[0].scores)
    rows = [
        [
            result.name,
            *(_cell(result, name) for name in names),
            number(result.length_ratio, 3),
        ]
        for result in evaluation.results
    ]
    return Table(["system", *names, "length ratio"], rows)


def _cell(result: Result, name: str) -> str:
    test = result.tests.get(name)
    score = number(result.scores[name])
    return score if test is None or test.p is None else f"{score} (p = {test.p:.3f})"


def length_table(evaluation: Evaluation) -> Table:
    """BLEU by length, one line for each group of sentences."""
    first = evaluation.results[0].by_length
    rows = [
        [
            f"{group.low}" if group.low == group.high else f"{group.low}-{group.high}",
            f"{group.sentences:,}",
            *(number(result.by_length[i].bleu) for result in evaluation.results),
        ]
        for i, group in enumerate(first)
    ]
    return Table(
        [
            f"{evaluation.lengths_of} tokens",
            "sentences",
            *(result.name for result in evaluation.results),
        ],
        rows,
    )


def alignment_table(scores: Mapping[str, AlignmentScores]) -> Table:
    """Precision, recall and error rate of each system's links."""
    rows = [
        [name, number(each.precision), number(each.recall), number(each.error_rate)]
        for name, each in scores.items()
    ]
    return Table(["links", "precision", "recall", "alignment error rate"], rows)


def remarks(evaluation: Evaluation, min_words: int | None) -> list[str]:
    """What the scores depend on, and the lengths of summaries."""
    lines = [f"{name}: {settings}" for name, settings in evaluation.settings.items()]
    if any(result.tests for result in evaluation.results):
        lines.append("p: sacreBLEU's paired bootstrap against the first system, 1,000 resamples")
    lines += [
        f"{result.name}: {result.short:,} of {evaluation.sentences:,} outputs have fewer than "
        f"{min_words} words"
        for result in evaluation.results
        if result.short is not None
    ]
    return lines
