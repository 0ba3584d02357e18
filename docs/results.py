"""Tables of the published runs of the examples."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from convs2s.common.tables import MISSING, Table, markdown_table, number, speed
from convs2s.experiments.comparison import VALID, Comparison, Summary
from convs2s.experiments.file import Experiment
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.runs import all_runs
from convs2s.experiments.tables import (
    difference,
    main_columns,
    mean_and_deviation,
    millions,
    option_text,
)
from docs import runs

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
# The speed of a run that shared its machine says little.
SPEEDS = {"Tokens/s": "tokens_per_second", "Sentences/s": "sentences_per_second"}


@cache
def finished(file: str, direction: str = "", **changes: Any) -> Comparison:
    """The systems of an experiment all of whose runs are published.

    Args:
        file: path of the experiment's file in ``examples``.
        direction: the languages of runs in another direction than the file's, such as ``en_de``.
        changes: other values of attributes of the experiment; without a baseline, nothing is
            compared, which takes long.
    """
    experiment = replace(read_experiment(EXAMPLES / file), **changes)
    return _finished(experiment, runs.name_of(file, direction))


def _finished(experiment: Experiment, name: str) -> Comparison:
    planned, published = all_runs(experiment), runs.read(name)
    missing = {run.system.name for run in planned if run.name not in published}
    systems = {
        name: system
        for name, system in experiment.systems.items()
        if name not in missing and not system.reverse
    }
    results = [published[run.name]["result"] for run in planned if run.system.name in systems]
    with TemporaryDirectory() as folder:
        out = Path(folder)
        runs.unpack(name, out)
        return Comparison(out, results, replace(experiment, systems=systems))


def continued(file: str) -> str:
    """A table for each system that others continue, with their differences to it.

    Args:
        file: as in ``finished``.
    """
    experiment = read_experiment(EXAMPLES / file)
    bases = {system.continues: None for system in experiment.systems.values() if system.continues}
    groups = [
        [name for name, system in experiment.systems.items() if base in (name, system.continues)]
        for base in bases
    ]
    return _by_group(experiment, runs.name_of(file), groups)


def by_architecture(file: str) -> str:
    """A table for each ``arch``, with the differences to its first system.

    Args:
        file: as in ``finished``.
    """
    experiment = read_experiment(EXAMPLES / file)
    groups: dict[str, list[str]] = {}
    for name, system in experiment.systems.items():
        groups.setdefault(system.train["arch"], []).append(name)
    return _by_group(experiment, runs.name_of(file), groups.values())


def _by_group(experiment: Experiment, name: str, groups: Iterable[Sequence[str]]) -> str:
    """A table for each group of systems, if more than its first one, the baseline, is finished."""
    tables = []
    for group in groups:
        systems = {system: experiment.systems[system] for system in group}
        comparison = _finished(replace(experiment, systems=systems, baseline=group[0]), name)
        if len(comparison.summaries) > 1:
            tables.append(scores(comparison))
    return "\n\n".join(tables)


def scores(comparison: Comparison) -> str:
    """Sizes, training times and scores, one line per system."""
    measured = {key for summary in comparison.summaries for key in summary.speeds}
    columns = [
        (title, cell)
        for title, cell in main_columns(comparison)
        if title not in SPEEDS or SPEEDS[title] in measured
    ]
    cells = [
        [
            MISSING if title in SPEEDS and not summary.speeds else cell(summary)
            for title, cell in columns
        ]
        for summary in comparison.summaries
    ]
    return Table([title for title, _ in columns], cells).markdown().rstrip("\n")


def scores_in_short(comparison: Comparison) -> str:
    """The columns of ``scores`` that fit on a page, the most important ones first."""
    test = comparison.tests[0]
    columns = {title: cell for title, cell in main_columns(comparison)}
    chosen = {
        "System": columns["System"],
        "BLEU": columns[f"BLEU {test}"],
        "Difference": columns["Difference"],
        "Parameters (M)": columns["Parameters without embeddings (M)"],
        "Sentences/s": lambda summary: speed(
            summary.speeds.get("sentences_per_second", {}).get("median")
        ),
        "CPU minutes": columns["Training (CPU minutes)"],
        "Seeds": columns["Seeds"],
    }
    cells = [[cell(summary) for cell in chosen.values()] for summary in comparison.summaries]
    return Table(list(chosen), cells).markdown().rstrip("\n")


def beside_published(comparison: Comparison, published: Mapping[str, str]) -> str:
    """BLEU of a paper's table beside that of the same systems here.

    Args:
        comparison: the systems whose runs are published.
        published: the name of a system -> BLEU in the paper, in the order of the table.
    """
    test = comparison.tests[0]
    summaries = {summary.system.name: summary for summary in comparison.summaries}
    cells = [
        [
            summary.system.title,
            bleu,
            mean_and_deviation(summary.scores(test, "bleu")),
            difference(comparison, summary, test),
            millions(summary.median("parameters")),
            number(summary.median("cpu_minutes"), 1),
        ]
        for name, bleu in published.items()
        if (summary := summaries.get(name))
    ]
    titles = ["System", "BLEU, paper", "BLEU, here", "Difference", "Parameters (M)", "CPU minutes"]
    return Table(titles, cells).markdown().rstrip("\n")


def sweep(file: str, others: Mapping[str, str] | None = None) -> str:
    """A table of trials that each change one option of the first one.

    Args:
        file: as in ``finished``.
        others: a name in ``results`` -> how its runs differ from those of the file; None means
            that all runs are those of the file.
    """
    planned = all_runs(read_experiment(EXAMPLES / file))
    tried = []
    for name, changed in {runs.name_of(file): "", **(others or {})}.items():
        published = runs.read(name)
        for run in planned:
            if run.name in published:
                trial = published[run.name]["result"]
                tried.append((changed or _options(trial) or run.system.title, trial))
    scores = [trial["splits"][VALID]["bleu"] for _, trial in tried]
    cells = [
        [
            title,
            number(bleu),
            f"{bleu - scores[0]:+.2f}" if line else "base",
            number(trial["cpu_minutes"], 1),
        ]
        for line, ((title, trial), bleu) in enumerate(zip(tried, scores))
    ]
    titles = ["Setting", f"BLEU {VALID}", "Difference", "Training (CPU minutes)"]
    return Table(titles, cells).markdown().rstrip("\n")


def trials(comparison: Comparison) -> str:
    """The trials of each system, with BLEU on the validation set; the chosen one is bold."""
    tuned = [summary for summary in comparison.summaries if summary.trials]
    return markdown_table(
        ("System", "Trials: BLEU on the validation set"),
        [
            (summary.system.title, "; ".join(_trial(summary, trial) for trial in summary.trials))
            for summary in tuned
        ],
    )


def _options(trial: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {option_text(value)}" for name, value in trial["trial_options"].items()
    )


def _trial(summary: Summary, trial: dict[str, Any]) -> str:
    bleu = trial["splits"].get(VALID, {}).get("bleu")
    text = f"{_options(trial)}: {'diverged' if bleu is None else number(bleu)}"
    return f"**{text}**" if trial is summary.chosen else text
