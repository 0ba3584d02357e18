"""The metrics of ``convs2s evaluate``, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sacrebleu.metrics.base import Metric as SacreBLEUMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from ..common.errors import UserError
from . import (
    meteor,
    summaries,
)

# Hypotheses; references: one list for each set of references.
Texts = Sequence[str]
References = Sequence[Texts]
TOKENIZERS = tuple(BLEU.TOKENIZERS)


@dataclass(frozen=True)
class MetricOptions:
    """The options that metrics share.

    Attributes:
        lowercase: compare in lower case.
        summary_bytes: cut summaries to this number of bytes before ROUGE; None for no limit.
        stem: compare the stems of English words in ROUGE.
        tokenize: sacreBLEU's tokenizer for BLEU, one of ``TOKENIZERS``.
    """

    lowercase: bool = False
    summary_bytes: int | None = None
    stem: bool = False
    tokenize: str = BLEU.TOKENIZER_DEFAULT


@dataclass(frozen=True)
class Scores:
    """The scores of one system by one metric.

    Attributes:
        values: scores in percent, by name; most metrics have one.
        settings: what the scores depend on, such as sacreBLEU's signature.
    """

    values: dict[str, float]
    settings: str


def sacrebleu_metrics(options: MetricOptions) -> dict[str, Callable[[], SacreBLEUMetric]]:
    """The metrics of sacreBLEU by name, each made when it is called."""
    return {
        # Tokenized text is allowed, so sacreBLEU must not warn about it.
        "BLEU": lambda: BLEU(lowercase=options.lowercase, tokenize=options.tokenize, force=True),
        "chrF": lambda: CHRF(lowercase=options.lowercase),
        "tokenized BLEU": lambda: BLEU(
            lowercase=options.lowercase, tokenize="none", smooth_method="none", force=True
        ),
    }


def _sacrebleu(name: str, options: MetricOptions) -> "Metric":
    def score(hypotheses: Texts, references: References) -> Scores:
        metric = sacrebleu_metrics(options)[name]()
        value = metric.corpus_score(list(hypotheses), [list(texts) for texts in references])
        return Scores({name: float(value.score)}, str(metric.get_signature()))

    return Metric(name, score, True)


@dataclass(frozen=True)
class Metric:
    """A metric.

    Attributes:
        name: its name.
        score: scores hypotheses against references.
        has_test: whether differences can be tested by sacreBLEU's paired bootstrap.
    """

    name: str
    score: Callable[[Texts, References], Scores] = field(repr=False)
    has_test: bool = False


def _rouge(options: MetricOptions) -> Metric:
    def score(hypotheses: Texts, references: References) -> Scores:
        values = summaries.rouge(hypotheses, references, options.summary_bytes, options.stem)
        limit = options.summary_bytes
        return Scores(
            values,
            f"rouge-score {summaries.version()}, {'stems' if options.stem else 'words'}, "
            f"{'whole summaries' if limit is None else f'the first {limit} bytes'}",
        )

    return Metric("ROUGE", score)


def _meteor(options: MetricOptions) -> Metric:
    def score(hypotheses: Texts, references: References) -> Scores:
        value = meteor.meteor(hypotheses, references)
        return Scores({"METEOR": value}, f"nltk {meteor.version()}, lower case, English")

    return Metric("METEOR", score)


METRICS: dict[str, Callable[[MetricOptions], Metric]] = {
    "bleu": lambda options: _sacrebleu("BLEU", options),
    "chrf": lambda options: _sacrebleu("chrF", options),
    "tokenized_bleu": lambda options: _sacrebleu("tokenized BLEU", options),
    "rouge": _rouge,
    "meteor": _meteor,
}
DEFAULT_METRICS = ("bleu", "chrf", "tokenized_bleu")


def find_metrics(
    names: Sequence[str], options: MetricOptions, references: References = ()
) -> list[Metric]:
    """The metrics with these names, each once, in their order.

    Args:
        names: keys of ``METRICS``.
        options: their options.
        references: what they will score against, to check that they can read it.
    Raises:
        UserError: if a name is unknown, the package of a metric or the tokenizer is not installed,
            or a metric cannot read the script of the references.
    """
    for name in names:
        if name not in METRICS:
            raise UserError(f"There is no metric {name}: choose from {', '.join(METRICS)}.")
    if "rouge" in names:
        summaries.check_installed()
        for texts in references:
            summaries.check_script(texts)
    if "meteor" in names:
        meteor.check_installed()
    _check_tokenizer(options.tokenize)
    return [METRICS[name](options) for name in dict.fromkeys(names)]


def _check_tokenizer(name: str) -> None:
    """Make sacreBLEU load or download what a tokenizer needs.

    Raises:
        UserError: if it cannot.
    """
    if name not in TOKENIZERS:
        raise UserError(
            f"There is no tokenizer {name} (--tokenize): choose from {', '.join(TOKENIZERS)}."
        )
    try:
        BLEU(tokenize=name, force=True)
    except (RuntimeError, ImportError) as error:
        # sacreBLEU's message is several lines with the command that installs the package.
        message = " ".join(str(error).split())
        raise UserError(
            f"sacreBLEU cannot use the tokenizer {name} (--tokenize): {message}"
        ) from error
    except OSError as error:
        raise UserError(
            f"sacreBLEU cannot download the model of the tokenizer {name} (--tokenize): {error}."
        ) from error
