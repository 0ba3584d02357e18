"""ROUGE of summaries, by Google's rouge-score.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004 workshop.
"""

import re
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec

from ..common.errors import UserError

# Names of rouge-score and of the papers.
KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
_KEPT = re.compile("[a-z0-9]")


def check_installed() -> None:
    """Check that rouge-score is installed.

    Raises:
        UserError: if it is not.
    """
    if find_spec("rouge_score") is None:
        raise UserError(
            'ROUGE needs rouge-score: run `pip install "convs2s-plugin[evaluate]"`, or leave out '
            "the metric rouge."
        )


def version() -> str:
    """The version of rouge-score."""
    return metadata.version("rouge-score")


def check_script(references: Sequence[str]) -> None:
    """Check that rouge-score can read references: it drops all but a to z and digits.

    Raises:
        UserError: if it drops most of their letters, as in Chinese or Greek.
    """
    text = "".join(references).lower()
    letters = sum(character.isalnum() for character in text)
    kept = len(_KEPT.findall(text))
    if 2 * kept <= letters:
        raise UserError(
            "ROUGE cannot score these references: rouge-score reads only the letters a to z and "
            f"digits, which are {kept:,} of their {letters:,} letters and digits. Leave out the "
            "metric rouge; chrf and bleu (--tokenize) read every script."
        )


def cut_bytes(text: str, limit: int) -> str:
    """The beginning of a text that has at most ``limit`` bytes in UTF-8.

    The last word may be cut, as in the evaluation of DUC 2004; no character is.
    """
    return text.encode("utf-8")[:limit].decode("utf-8", errors="ignore")


def rouge(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    limit: int | None = None,
    stem: bool = False,
) -> dict[str, float]:
    """Mean recall and F1 of ROUGE-1, ROUGE-2 and ROUGE-L over summaries.

    Args:
        hypotheses: N summaries.
        references: one list of N reference summaries for each set of references. Of several, the
            one with the best F1 counts, which may be another for each kind of ROUGE.
        limit: cut each summary to this number of bytes; None for no limit.
        stem: compare the stems of English words (Porter).
    Returns:
        Percentages, such as that of "ROUGE-1 recall" and "ROUGE-1 F1".
    """
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer([*KINDS], use_stemmer=stem)
    sums = {f"{title} {part}": 0.0 for title in KINDS.values() for part in ("recall", "F1")}
    for hypothesis, *targets in zip(hypotheses, *references):
        found = scorer.score_multi(
            targets, hypothesis if limit is None else cut_bytes(hypothesis, limit)
        )
        for kind, title in KINDS.items():
            sums[f"{title} recall"] += found[kind].recall
            sums[f"{title} F1"] += found[kind].fmeasure
    return {name: 100 * value / len(hypotheses) for name, value in sums.items()}
