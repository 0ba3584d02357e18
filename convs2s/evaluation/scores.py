"""Scores of translations: sacreBLEU, chrF and the length ratio."""

from collections.abc import Sequence

from ..common.errors import UserError
from .metrics import MetricOptions, sacrebleu_metrics


def check_line_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Check that there is one translation for each reference.

    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"There are {len(hypotheses)} translations, but {len(references)} references; "
            "each reference needs one translation, in the same order."
        )
    if not references:
        raise UserError("There are no translations to score; the test set needs at least one line.")


def score(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float | str]:
    """Score translations of a test set against one reference each.

    Args:
        hypotheses: the translations, as plain text; sacreBLEU's default tokenizer (13a) applies.
        references: the references, in the same order.
    Returns:
        ``sacrebleu`` and ``chrf`` in percent; ``length_ratio``, the number of tokens in the
        translations divided by that in the references; ``sacrebleu_signature`` and
        ``chrf_signature``, the settings of both metrics.
    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    check_line_counts(hypotheses, references)
    metrics = sacrebleu_metrics(MetricOptions())
    bleu, chrf = metrics["BLEU"](), metrics["chrF"]()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)])
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)])
    return {
        "sacrebleu": float(bleu_score.score),
        "sacrebleu_signature": str(bleu.get_signature()),
        "chrf": float(chrf_score.score),
        "chrf_signature": str(chrf.get_signature()),
        "length_ratio": float(bleu_score.ratio),
    }
