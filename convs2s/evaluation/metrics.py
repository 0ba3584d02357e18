"""The metrics of ``convs2s evaluate``, by name."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.errors import UserError, nearest

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreBLEUMetric

# Hypotheses; references: one list for each set of references.
Texts = Sequence[str]
References = Sequence[Texts]
# Names of rouge-score and of the papers.
KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
_KEPT = re.compile("[a-z0-9]")


@dataclass(frozen=True)
class MetricOptions:
    """The options that metrics share.

    Attributes:
        lowercase: compare in lower case.
        summary_bytes: cut summaries to this number of bytes before ROUGE; None for no limit.
        stem: compare the stems of English words in ROUGE.
        tokenize: sacreBLEU's tokenizer for BLEU, such as zh.
    """

    lowercase: bool = False
    summary_bytes: int | None = None
    stem: bool = False
    tokenize: str = "13a"


class Scores(NamedTuple):
    """The scores of one system by one metric.

    Attributes:
        values: scores in percent, by name; most metrics have one.
        settings: what the scores depend on, such as sacreBLEU's signature.
    """

    values: dict[str, float]
    settings: str


def sacrebleu_metrics(options: MetricOptions) -> dict[str, Callable[[], "SacreBLEUMetric"]]:
    """The metrics of sacreBLEU by name, each made when it is called."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {
        # Tokenized text is allowed, so sacreBLEU must not warn about it.
        "BLEU": lambda: BLEU(lowercase=options.lowercase, tokenize=options.tokenize, force=True),
        "chrF": lambda: CHRF(lowercase=options.lowercase),
        "chrF++": lambda: CHRF(lowercase=options.lowercase, word_order=2),
        # In lower case, as tercom.
        "TER": TER,
        "tokenized BLEU": lambda: BLEU(
            lowercase=options.lowercase, tokenize="none", smooth_method="none", force=True
        ),
    }


def sacrebleu_score(
    name: str, hypotheses: Texts, references: References, options: MetricOptions
) -> tuple[Any, str]:
    """sacreBLEU's score of a corpus, and its signature.

    Args:
        name: a key of ``sacrebleu_metrics``.
        hypotheses: N translations.
        references: one list of N references for each set of references.
        options: the options of the metric.
    """
    metric = sacrebleu_metrics(options)[name]()
    score = metric.corpus_score(list(hypotheses), [list(texts) for texts in references])
    return score, str(metric.get_signature())


def _sacrebleu(
    name: str, hypotheses: Texts, references: References, options: MetricOptions
) -> Scores:
    score, signature = sacrebleu_score(name, hypotheses, references, options)
    return Scores({name: float(score.score)}, signature)


def rouge(hypotheses: Texts, references: References, options: MetricOptions) -> Scores:
    """Mean recall and F1 of ROUGE-1, ROUGE-2 and ROUGE-L over summaries.

    Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", ACL 2004 workshop.

    Args:
        hypotheses: N summaries.
        references: one list of N reference summaries for each set of references. Of several, the
            one with the best F1 counts, which may differ between the kinds of ROUGE.
        options: the options of the metric.
    Returns:
        Percentages, such as that of "ROUGE-1 recall" and "ROUGE-1 F1".
    """
    limit, stem = options.summary_bytes, options.stem
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer([*KINDS], use_stemmer=stem)
    sums = {f"{title} {part}": 0.0 for title in KINDS.values() for part in ("recall", "F1")}
    for hypothesis, *targets in zip(hypotheses, *references):
        found = scorer.score_multi(
            targets, hypothesis if limit is None else cut_bytes(hypothesis, limit)
        )
        for kind, title in KINDS.items():
            sums[f"{title} recall"] += found[kind].recall
            sums[f"{title} F1"] += found[kind].fmeasure
    return Scores(
        {name: 100 * value / len(hypotheses) for name, value in sums.items()},
        f"rouge-score {version('rouge-score')}, {'stems' if stem else 'words'}, "
        f"{'whole summaries' if limit is None else f'the first {limit} bytes'}",
    )


def meteor(hypotheses: Texts, references: References, options: MetricOptions) -> Scores:
    """Mean METEOR of sentences in percent, by nltk.

    Banerjee and Lavie, "METEOR: An Automatic Metric for MT Evaluation with Improved Correlation
    with Human Judgments", ACL 2005 workshop. The parameters are those of nltk, which are not the
    tuned ones of METEOR 1.5, so the scores cannot be compared with those of its Java program.

    Args:
        hypotheses: N translations; tokens are separated by spaces.
        references: one list of N references for each set of references; the best one counts.
        options: unused.
    """
    score = import_module("nltk.translate.meteor_score").meteor_score
    values = [
        score([target.split() for target in targets], hypothesis.split())
        for hypothesis, *targets in zip(hypotheses, *references)
    ]
    value = 100 * sum(values) / len(values)
    return Scores({"METEOR": value}, f"nltk {version('nltk')}, lower case, English")


def word_error_rate(hypotheses: Texts, references: References, options: MetricOptions) -> Scores:
    """Pronunciations that are not exactly right, in percent.

    Args:
        hypotheses: the pronunciations of N words, phones separated by spaces.
        references: one list of N for each set of references; any of them is right.
        options: the options of the metric.
    """
    wrong = sum(
        hypothesis not in targets
        for hypothesis, *targets in _tokens(hypotheses, references, options)
    )
    return Scores({"WER": 100 * wrong / len(hypotheses)}, _settings("lines that differ", options))


def phone_error_rate(hypotheses: Texts, references: References, options: MetricOptions) -> Scores:
    """Edits that turn pronunciations into the references, in percent of their phones.

    Args:
        hypotheses: the pronunciations of N words, phones separated by spaces.
        references: one list of N for each set of references; the closest one counts.
        options: the options of the metric.
    """
    edits = phones = 0
    for hypothesis, *targets in _tokens(hypotheses, references, options):
        distances = [(edit_distance(hypothesis, target), len(target)) for target in targets]
        closest, length = min(distances)
        edits, phones = edits + closest, phones + length
    return Scores({"PER": 100 * edits / max(1, phones)}, _settings("edits per phone", options))


def _tokens(
    hypotheses: Texts, references: References, options: MetricOptions
) -> Iterator[list[list[str]]]:
    """The tokens of each hypothesis and of its references."""
    for texts in zip(hypotheses, *references):
        yield [(text.lower() if options.lowercase else text).split() for text in texts]


def _settings(counted: str, options: MetricOptions) -> str:
    """What the error rates count, and how."""
    return f"{counted}, lower case" if options.lowercase else counted


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions of tokens between two sequences."""
    before = list(range(len(second) + 1))
    for i, token in enumerate(first, start=1):
        row = [i]
        for j, other in enumerate(second):
            row.append(min(before[j] + (token != other), before[j + 1] + 1, row[j] + 1))
        before = row
    return before[-1]


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: its name.
        score: scores hypotheses against references.
        has_test: whether differences can be tested by sacreBLEU's paired bootstrap.
    """

    name: str
    score: Callable[[Texts, References, MetricOptions], Scores]
    has_test: bool = False


METRICS = {
    "bleu": Metric("BLEU", partial(_sacrebleu, "BLEU"), has_test=True),
    "chrf": Metric("chrF", partial(_sacrebleu, "chrF"), has_test=True),
    "chrf++": Metric("chrF++", partial(_sacrebleu, "chrF++"), has_test=True),
    "ter": Metric("TER", partial(_sacrebleu, "TER"), has_test=True),
    "tokenized_bleu": Metric("tokenized BLEU", partial(_sacrebleu, "tokenized BLEU"), True),
    "wer": Metric("WER", word_error_rate),
    "per": Metric("PER", phone_error_rate),
    "rouge": Metric("ROUGE", rouge),
    "meteor": Metric("METEOR", meteor),
}
# The packages of metrics that are not installed with this one.
PACKAGES = {"rouge": "rouge_score", "meteor": "nltk"}
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
            raise UserError(
                f"There is no metric {name}{nearest(name, METRICS)}: choose from "
                f"{', '.join(METRICS)}."
            )
        package = PACKAGES.get(name)
        if package is not None and find_spec(package) is None:
            raise UserError(
                f"{name.upper()} needs {package.replace('_', '-')}: run `pip install "
                f'"convs2s-plugin[evaluate]"`, or omit the metric {name}.'
            )
    if "rouge" in names:
        for texts in references:
            _check_script(texts)
    if "meteor" in names:
        try:
            import_module("nltk.corpus").wordnet.ensure_loaded()
        except LookupError as error:
            raise UserError(
                "METEOR needs WordNet for its synonyms: run `python -m nltk.downloader wordnet`, "
                "or omit the metric meteor."
            ) from error
    _check_tokenizer(options.tokenize)
    return [METRICS[name] for name in dict.fromkeys(names)]


def default_tokenizer(language: str) -> str:
    """The tokenizer that sacreBLEU chooses for a target language, such as zh for Chinese."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU._TOKENIZER_MAP.get(language, BLEU.TOKENIZER_DEFAULT)


def _check_tokenizer(name: str) -> None:
    """Make sacreBLEU load or download what a tokenizer needs."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise UserError(
            f"There is no tokenizer {name}{nearest(name, BLEU.TOKENIZERS)} (--tokenize): choose "
            f"from {', '.join(BLEU.TOKENIZERS)}."
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


def _check_script(references: Sequence[str]) -> None:
    """Refuse references most of whose letters rouge-score drops, as in Chinese or Greek."""
    text = "".join(references).lower()
    letters = sum(character.isalnum() for character in text)
    kept = len(_KEPT.findall(text))
    if 2 * kept <= letters:
        raise UserError(
            "ROUGE cannot score these references: rouge-score reads only the letters a to z and "
            f"digits, which are {kept:,} of their {letters:,} letters and digits. Omit the metric "
            "rouge; chrf and bleu (--tokenize) read every script."
        )


def cut_bytes(text: str, limit: int) -> str:
    """The beginning of a text that has at most ``limit`` bytes in UTF-8.

    The last word may be cut, as in the evaluation of DUC 2004; no character is.
    """
    return text.encode("utf-8")[:limit].decode("utf-8", errors="ignore")
