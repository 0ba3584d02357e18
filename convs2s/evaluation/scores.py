"""The scores of an experiment's translations."""

from collections.abc import Sequence

from ..common.errors import UserError
from .comet import comet
from .metrics import MetricOptions, phone_error_rate, sacrebleu_score, word_error_rate


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
    (bleu, bleu_signature), (chrf, chrf_signature) = (
        sacrebleu_score(name, hypotheses, [references], MetricOptions())
        for name in ("BLEU", "chrF")
    )
    return {
        "sacrebleu": float(bleu.score),
        "sacrebleu_signature": bleu_signature,
        "chrf": float(chrf.score),
        "chrf_signature": chrf_signature,
        "length_ratio": float(bleu.ratio),
    }


def error_rates(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Error rates of a test set against one reference each, such as those of pronunciations.

    Args:
        hypotheses: the translations.
        references: the references, in the same order.
    Returns:
        ``wer``, lines that are not exactly right, and ``per``, edits for each token of the
        references; both in percent.
    Raises:
        UserError: if the numbers of lines differ, or there are none.
    """
    check_line_counts(hypotheses, references)
    wer = word_error_rate(hypotheses, [references], MetricOptions())
    per = phone_error_rate(hypotheses, [references], MetricOptions())
    return {"wer": wer.values["WER"], "per": per.values["PER"]}


def comet_score(
    model: str, source: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, float | str]:
    """Score translations of a test set with a model of COMET.

    Args:
        model: its checkpoint.
        source: the source sentences.
        hypotheses: their translations.
        references: the references, in the same order.
    Returns:
        ``comet`` in percent, and ``comet_signature``, the model.
    Raises:
        UserError: if the model or COMET is missing, or fails.
    """
    found = comet(model, source).score(hypotheses, [references], MetricOptions())
    return {"comet": found.values["COMET"], "comet_signature": found.settings}
