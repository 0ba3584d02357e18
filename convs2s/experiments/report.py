"""The report of an experiment: tables in Markdown, LaTeX and CSV, and all results in JSON."""

import csv
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..common.output_files import atomic_write
from ..common.tables import Table, escape_markdown
from .choices import TITLES, Result
from .comparison import VALID, Comparison, Summary
from .file import Experiment
from .records import write_json
from .tables import (
    columns_by_test_set,
    data_set_table,
    equal_groups,
    equal_table,
    main_columns,
    option_text,
    search_table,
    system_table,
    time_of_training,
    trial_table,
)

# Training runs whose times differ by less than this factor are compared at equal time.
EQUAL_TIME = 1.1
CORES = re.compile(r", \d+ cores?")
METRICS = ("bleu", "sacrebleu", "chrf")
ERRORS = ("wer", "per")
# Titles of the scores whose differences are tested.
SCORES = {"sacrebleu": "sacreBLEU", "wer": "WER"}
# The numbers of a system whose median over the runs is in ``table.csv``.
NUMBERS = (
    "parameters",
    "parameters_without_embeddings",
    "train_minutes",
    "cpu_minutes",
    "tokens_per_second",
    "sentences_per_second",
)
SIGNATURES = {
    "sacreBLEU": "sacrebleu_signature",
    "chrF": "chrf_signature",
    "COMET": "comet_signature",
}


def signatures(comparison: Comparison) -> dict[str, list[str]]:
    """The signatures of each metric over all results; several only if versions differ."""
    scores = [
        scores for result in comparison.results for scores in result.get("splits", {}).values()
    ]
    return {
        metric: list(dict.fromkeys(each[key] for each in scores if each.get(key)))
        for metric, key in SIGNATURES.items()
        if any(key in each for each in scores)
    }


def legend(comparison: Comparison) -> str:
    """What the columns mean."""
    is_plain = comparison.experiment.data.prepared is not None
    text = "plain text" if is_plain else "same tokens, which are not turned into plain text"
    experiment = comparison.experiment
    sentences = ["Scores are means over seeds ± the sample standard deviation."]
    if experiment.data.sets:
        sentences.append(
            f"They are means over {len(experiment.data.sets)} data sets, times are sums."
        )
    if comparison.metric == "wer":
        sentences.append(
            "WER is the share of lines that are not exactly right, PER the number of edits for "
            "each token of the references, both in percent."
        )
    else:
        sentences.append(
            "BLEU is computed by fairseq-generate on the tokens of the data with sub-words joined, "
            f"sacreBLEU and chrF on the {text}."
        )
    sentences += [
        "Parameters without embeddings exclude token embeddings and the output layer.",
        "Training time and speeds are medians over seeds, unless a range (minimum–maximum) "
        "follows: then they are medians of repeated measurements.",
    ]
    if comparison.baseline is not None and comparison.differences:
        from ..evaluation.significance import SAMPLES

        title = escape_markdown(comparison.baseline.system.title)
        test = f"paired bootstrap resampling of the sentences, {SAMPLES:,} samples"
        if experiment.data.sets:
            test = "permutation test over the data sets"
        score = SCORES[comparison.metric]
        sentences.append(
            f"Difference: {score} minus that of {title}; p: {test}; p over seeds: Welch's t-test."
        )
    if comparison.devices:
        sentences.append(f"Device: {escape_markdown('; '.join(comparison.devices))}.")
    for metric, texts in signatures(comparison).items():
        if texts and (comparison.metric == "sacrebleu" or metric == "COMET"):
            sentences.append(f"{metric}: {', '.join(f'`{text}`' for text in texts)}.")
    return " ".join(sentences) + "\n"


def lengths(comparison: Comparison) -> list[tuple[str, str, str, float]]:
    """What two training runs may have in common: its name, the title of its column, its key, and
    the ratio of two numbers that still count as equal."""
    found: list[tuple[str, str, str, float]] = [("numbers of updates", "Updates", "updates", 1)]
    # CPU time does not depend on how many cores the machine has.
    if len({CORES.sub("", device) for device in comparison.devices}) <= 1:
        time = time_of_training(comparison)
        found.append(("time of training", time.title, time.key, EQUAL_TIME))
    return found


def tables(comparison: Comparison) -> list[Table]:
    """The main table, and with several test sets the table of all of them."""
    found = [system_table(comparison, main_columns(comparison))]
    if len(comparison.tests) > 1:
        found.append(system_table(comparison, columns_by_test_set(comparison)))
    return found


def markdown(comparison: Comparison, unfinished: Sequence[str], failed: Sequence[str]) -> str:
    """The whole report in Markdown."""
    main, *others = (table.markdown() for table in tables(comparison))
    parts = [f"# {escape_markdown(comparison.experiment.title)}\n", main]
    for table in others:
        parts += [f"## {SCORES[comparison.metric]} by test set\n", table]
    parts.append(legend(comparison))
    for split in comparison.tests if comparison.experiment.data.sets else []:
        table = data_set_table(comparison, split).markdown()
        parts += [
            f"## {SCORES[comparison.metric]} on {escape_markdown(split)} by data set\n",
            table,
        ]
    for kind, title, key, ratio in lengths(comparison):
        groups = equal_groups(comparison, key, ratio)
        if groups:
            table = equal_table(comparison, groups, title, key).markdown()
            parts += [f"## At equal {kind}\n", table]
    if comparison.experiment.limit_updates is not None:
        parts.append(f"No run has more than {comparison.experiment.limit_updates:,} updates.\n")
    for label, names in (("Unfinished", unfinished), ("Failed", failed)):
        if names:
            parts.append(f"{label}: {escape_markdown(', '.join(names))}.\n")
    tuned = [summary for summary in comparison.summaries if summary.trials]
    searched = [each for each in comparison.summaries if each.runs and each.runs[0].get("searches")]
    parts += _section("Trials", comparison, tuned, trial_table)
    title = TITLES[comparison.experiment.metric]
    note = [f"{title} on {VALID}; each run uses the best for the test sets.\n"]
    return "\n".join(parts + _section("Search options", comparison, searched, search_table, note))


def _section(
    title: str,
    comparison: Comparison,
    summaries: Sequence[Summary],
    table: Callable[[Comparison, Summary], Table],
    note: Sequence[str] = (),
) -> list[str]:
    """The parts of a section with a table for each of some systems; none without them."""
    parts = [f"## {title}\n", *note] if summaries else []
    for summary in summaries:
        parts += [
            f"### {escape_markdown(summary.system.title)}\n",
            table(comparison, summary).markdown(),
        ]
    return parts


def summarized(comparison: Comparison, summary: Summary) -> Iterator[tuple[str, Any]]:
    """The names and values of a system's cells in CSV."""
    yield from (
        ("system", summary.system.name),
        ("title", summary.system.title),
        ("runs", len(summary.runs)),
    )
    for key in NUMBERS:
        measured = summary.speeds.get(key, {}).get("median")
        yield key, summary.median(key) if measured is None else measured
    for split in [VALID, *comparison.tests]:
        has_comet = bool(summary.scores(split, "comet"))
        for metric in METRICS + ERRORS * (comparison.metric == "wer") + ("comet",) * has_comet:
            scores = summary.scores(split, metric)
            yield f"{split}.{metric}.mean", statistics.mean(scores) if scores else None
            deviation = statistics.stdev(scores) if len(scores) > 1 else None
            yield f"{split}.{metric}.deviation", deviation
    for split in comparison.tests or [VALID]:
        found = comparison.differences.get((summary.system.name, split))
        yield f"{split}.{comparison.metric}.difference", found and found.difference
        yield f"{split}.{comparison.metric}.p", found and found.p
        yield f"{split}.{comparison.metric}.p_over_seeds", comparison.p_over_seeds(summary, split)


def flatten(result: Result) -> Iterator[tuple[str, Any]]:
    """The names and values of a result's cells in CSV."""
    yield from ((key, result.get(key)) for key in ("system", "seed", "trial"))
    yield from ((k, v) for k, v in result.items() if not isinstance(v, dict | list))
    for split, scores in result.get("splits", {}).items():
        yield from ((f"{split}.{k}", v) for k, v in scores.items() if not k.endswith("_signature"))
    for program, key in (("train", "options"), ("generate", "generate")):
        for name, value in result.get(key, {}).items():
            yield f"{program}.{name}", None if value is None else option_text(value)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write lines whose columns have the names of their values."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with atomic_write(str(path)) as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def json_content(comparison: Comparison) -> dict[str, Any]:
    """The content of ``results.json``: all results, trials included."""
    experiment, summaries = comparison.experiment, comparison.summaries
    return {
        "title": experiment.title,
        "baseline": experiment.baseline,
        "metric": experiment.metric,
        "limit_updates": experiment.limit_updates,
        "systems": {name: system.title for name, system in experiment.systems.items()},
        "signatures": signatures(comparison),
        "speeds": {each.system.name: each.speeds for each in summaries if each.speeds},
        "differences": [
            {"system": system, "split": split, **found._asdict()}
            for (system, split), found in comparison.differences.items()
        ],
        "sets": {
            name: {each.system.name: each.by_set[name] for each in summaries}
            for name in experiment.data.sets
        },
        "results": comparison.results,
    }


def write(
    out: Path,
    results: Sequence[Result],
    experiment: Experiment,
    *,
    unfinished: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> str:
    """Write ``results.json``, ``table.md``, ``table.csv``, ``table.tex`` and ``runs.csv``.

    ``table.csv`` has a line for each system, ``runs.csv`` one for each run or trial. There, scores
    are called ``SPLIT.METRIC``, options ``train.NAME`` and ``generate.NAME``.

    Args:
        out, results, experiment: see ``Comparison``.
        unfinished: names of the runs that have no result yet.
        failed: names of the runs that failed.
    Returns:
        The report in Markdown.
    """
    comparison = Comparison(out, results, experiment)
    write_json(out / "results.json", json_content(comparison))
    text = markdown(comparison, unfinished, failed)
    latex = "\n".join(table.latex() for table in tables(comparison))
    for name, part in (("table.md", text), ("table.tex", latex)):
        with atomic_write(str(out / name)) as file:
            file.write(part)
    systems = [dict(summarized(comparison, summary)) for summary in comparison.summaries]
    write_csv(out / "table.csv", systems)
    write_csv(out / "runs.csv", [dict(flatten(result)) for result in comparison.results])
    return text
