"""Score systems, test their differences, and make tables of the results."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.progress import show_progress
from ..common.tables import MISSING, Table, number
from .metrics import (
    Metric,
    MetricOptions,
    References,
    Texts,
    sacrebleu_metrics,
    sacrebleu_score,
)

# Groups of sentences by length, if no bounds are given.
GROUPS = 5


class LengthGroup(NamedTuple):
    """Sentences of similar length.

    Attributes:
        low, high: the smallest and the largest length in tokens.
        sentences: their positions in the text, counted from 0.
    """

    low: int
    high: int
    sentences: list[int]


def group_by_length(
    lengths: Sequence[int], bounds: Sequence[int] | None = None
) -> list[LengthGroup]:
    """Group sentences by length.

    Args:
        lengths: the length of each sentence in tokens.
        bounds: the largest length of each group but the last, in increasing order. By default,
            five groups of about the same number of sentences.
    Returns:
        The groups that have sentences, the shortest sentences first.
    Raises:
        UserError: if the bounds are not positive and increasing.
    """
    if bounds is None:
        ordered = sorted(lengths)
        bounds = sorted({ordered[len(ordered) * i // GROUPS - 1] for i in range(1, GROUPS)})
    elif any(high <= low for low, high in zip((0, *bounds), bounds)):
        raise UserError(
            f"--length-bounds is {','.join(map(str, bounds))}: the bounds must be positive and "
            "increasing."
        )
    members: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for position, length in enumerate(lengths):
        members[bisect_left(bounds, length)].append(position)
    found_in = ([lengths[i] for i in sentences] for sentences in members)
    return [
        LengthGroup(min(found), max(found), sentences)
        for found, sentences in zip(found_in, members)
        if sentences
    ]


@dataclass(frozen=True)
class Test:
    """A system against the first one, by one metric (sacreBLEU's paired bootstrap).

    Attributes:
        p: p-value of the difference; None for the first system.
        mean: mean of the score over the resamples.
        confidence: half of the 95% confidence interval of the score.
    """

    p: float | None
    mean: float
    confidence: float


@dataclass(frozen=True)
class GroupScore:
    """BLEU of the sentences of similar length.

    Attributes:
        low, high: smallest and largest length in tokens.
        sentences: number of sentences.
        bleu: sacreBLEU of these sentences; None if neither the translations nor the references
            have four tokens, for which BLEU is 0 even if both are the same.
    """

    low: int
    high: int
    sentences: int
    bleu: float | None


@dataclass(frozen=True)
class Result:
    """The results of a system.

    Attributes:
        name: the system.
        scores: in percent, by name.
        length_ratio: number of tokens in the translations, divided by that of the references.
        tests: by metric; empty if there is only one system or one sentence.
        by_length: BLEU by length.
        short: number of translations with fewer words than asked for; None if not asked for.
    """

    name: str
    scores: dict[str, float]
    length_ratio: float
    tests: dict[str, Test]
    by_length: list[GroupScore]
    short: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """The results of all systems.

    Attributes:
        sentences: number of sentences.
        reference_sets: number of references of each sentence.
        settings: what the scores of each metric depend on.
        lengths_of: "source" or "reference", whose lengths the groups have.
        results: one for each system.
    """

    sentences: int
    reference_sets: int
    settings: dict[str, str]
    lengths_of: str
    results: list[Result]


def evaluate(
    systems: Mapping[str, Texts],
    references: References,
    groups: Sequence[LengthGroup],
    lengths_of: str,
    metrics: Sequence[Metric],
    options: MetricOptions,
    min_words: int | None = None,
    with_tests: bool = True,
) -> Evaluation:
    """Score systems, and test each against the first one; show the progress.

    Args:
        systems: the translations of each system, by name.
        references: one list of references for each set of references.
        groups: groups of sentences by length.
        lengths_of: "source" or "reference", whose lengths these are.
        metrics: the metrics.
        options: their options.
        min_words: count translations with fewer words; None to count nothing.
        with_tests: whether to test differences.
    """
    tests = {}
    # All resamples of one sentence are the same.
    if with_tests and len(systems) > 1 and len(references[0]) > 1:
        tests = _tests(systems, references, metrics, options)
    settings: dict[str, str] = {}
    results = []
    for name, hypotheses in show_progress(systems.items(), "systems", "Scores", len(systems)):
        short = [text for text in hypotheses if len(text.split()) < (min_words or 0)]
        scores: dict[str, float] = {}
        for metric in metrics:
            found = metric.score(hypotheses, references, options)
            scores.update(found.values)
            settings[metric.name] = found.settings
        results.append(
            Result(
                name,
                scores,
                float(sacrebleu_score("BLEU", hypotheses, references, options)[0].ratio),
                {metric: by_system[name] for metric, by_system in tests.items()},
                _by_length(hypotheses, references, groups, options),
                None if min_words is None else len(short),
            )
        )
    return Evaluation(len(references[0]), len(references), settings, lengths_of, results)


def _tests(
    systems: Mapping[str, Texts],
    references: References,
    metrics: Sequence[Metric],
    options: MetricOptions,
) -> dict[str, dict[str, Test]]:
    """The tests by metric and system."""
    from sacrebleu.significance import PairedTest

    tests = {}
    tested = [each for each in metrics if each.has_test]
    for metric in show_progress(tested, "metrics", "Bootstrap"):
        test = PairedTest(
            [(name, list(lines)) for name, lines in systems.items()],
            {metric.name: sacrebleu_metrics(options)[metric.name]()},
            [list(lines) for lines in references],
            test_type="bs",
        )
        # Besides the names of the systems, there is one column.
        column: Any = next(found for title, found in test()[1].items() if title != "System")
        baseline = column[0].score
        tests[metric.name] = {
            name: Test(
                # sacreBLEU calls a difference of zero significant.
                1.0 if result.p_value and result.score == baseline else result.p_value,
                float(result.mean),
                float(result.ci),
            )
            for name, result in zip(systems, column)
        }
    return tests


def _by_length(
    hypotheses: Texts, references: References, groups: Sequence[LengthGroup], options: MetricOptions
) -> list[GroupScore]:
    scores = []
    for group in groups:
        part, *targets = (
            [lines[i] for i in group.sentences] for lines in (hypotheses, *references)
        )
        bleu, _ = sacrebleu_score("BLEU", part, targets, options)
        known = bool(bleu.totals[-1]) or any(
            sacrebleu_score("BLEU", texts, [texts], options)[0].totals[-1] for texts in targets
        )
        value = float(bleu.score) if known else None
        scores.append(GroupScore(group.low, group.high, len(group.sentences), value))
    return scores


def main_table(evaluation: Evaluation) -> Table:
    """One line for each system: scores, and if they were tested, their confidence and p-values."""
    names = list(evaluation.results[0].scores)
    rows = [
        [result.name, *(_cell(result, name) for name in names), number(result.length_ratio, 3)]
        for result in evaluation.results
    ]
    return Table(["system", *names, "length ratio"], rows)


def _cell(result: Result, name: str) -> str:
    test = result.tests.get(name)
    score = number(result.scores[name])
    if test is None:
        return score
    p = "" if test.p is None else f" (p = {test.p:.3f})"
    return f"{score} ± {number(test.confidence)}{p}"


def length_table(evaluation: Evaluation) -> Table:
    """BLEU by length, one line for each group of sentences."""
    names = [result.name for result in evaluation.results]
    rows = [
        [
            f"{group.low}" if group.low == group.high else f"{group.low}-{group.high}",
            f"{group.sentences:,}",
            *map(number, bleus),
        ]
        for group, bleus in zip(evaluation.results[0].by_length, _bleu_of_groups(evaluation))
    ]
    return Table([f"{evaluation.lengths_of} tokens", "sentences", *names], rows)


def length_remarks(evaluation: Evaluation) -> list[str]:
    """What BLEU by length omits."""
    if any(None in bleus for bleus in _bleu_of_groups(evaluation)):
        return [
            f"{MISSING}: BLEU counts sequences of four tokens, which these sentences do not have"
        ]
    return []


def _bleu_of_groups(evaluation: Evaluation) -> list[list[float | None]]:
    """BLEU of every system, by group."""
    groups = zip(*(result.by_length for result in evaluation.results))
    return [[each.bleu for each in group] for group in groups]


def remarks(evaluation: Evaluation, min_words: int | None) -> list[str]:
    """What the scores depend on, and the lengths of summaries."""
    lines = [f"{name}: {settings}" for name, settings in evaluation.settings.items()]
    if any(result.tests for result in evaluation.results):
        lines += [
            "±: half of the 95% confidence interval over 1,000 resamples of the sentences",
            "p: sacreBLEU's paired bootstrap against the first system, with these resamples",
        ]
    lines += [
        f"{result.name}: {result.short:,} of {evaluation.sentences:,} outputs have fewer than "
        f"{min_words} words"
        for result in evaluation.results
        if result.short is not None
    ]
    return lines
