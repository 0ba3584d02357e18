"""The translation of a line: how those of its parts are joined, and how it is written.

Needs neither torch nor fairseq.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..common.lines import as_sentence
from .options import EnsembleOptions

REPORT_HEADER = "line\ttokens\tparts\tremark\n"


@dataclass(frozen=True)
class Hypothesis:
    """A translation of a line, or of a part of it.

    Attributes:
        text: plain text, without line breaks; empty for a part, which has only its tokens.
        score: the score as fairseq prints it: in base 2, with the length penalty.
        tokens: T target tokens, without the end of the sentence.
        token_scores: log-probabilities of the tokens and of the end of the sentence, in base 2;
            CTranslate2 returns none.
        alignment: pairs of source and target token, counted from 0; None if not asked for.
        is_cut_off: whether a search ended at its largest length.
    """

    text: str
    score: float
    tokens: list[str]
    token_scores: list[float]
    alignment: list[tuple[int, int]] | None = None
    is_cut_off: bool = False


@dataclass(frozen=True)
class Translation:
    """The translations of one line.

    Attributes:
        source: the line, without its line break.
        hypotheses: the best translations, the best one first; there is always one.
        num_tokens: number of source tokens.
        num_parts: number of parts that the line was split into; 0 if it is empty.
    """

    source: str
    hypotheses: list[Hypothesis]
    num_tokens: int
    num_parts: int

    @property
    def text(self) -> str:
        """The best translation."""
        return self.hypotheses[0].text

    @property
    def score(self) -> float:
        """The score of the best translation."""
        return self.hypotheses[0].score

    @property
    def is_cut_off(self) -> bool:
        """Whether a search for the best translation ended at its largest length."""
        return self.hypotheses[0].is_cut_off


def join(
    source: str,
    parts: Sequence[Sequence[str]],
    found: Sequence[Sequence[Hypothesis]],
    decode: Callable[[str], str],
    options: EnsembleOptions,
) -> Translation:
    """Build the translation of a line from the hypotheses for its parts.

    The n-th best translation of a line consists of the n-th best ones of its parts.

    Args:
        source: the line.
        parts: the source tokens of each part.
        found: the hypotheses for each part, the best ones first.
        decode: makes text from target tokens that are separated by spaces.
        options: how the parts were translated.
    """
    hypotheses = [
        _join_best(
            parts, [of_part[min(rank, len(of_part) - 1)] for of_part in found], decode, options
        )
        for rank in range(max(map(len, found), default=0))
    ]
    empty = Hypothesis("", 0.0, [], [], [] if options.alignment else None)
    num_tokens = sum(map(len, parts))
    return Translation(source, hypotheses or [empty], num_tokens, len(parts))


def _join_best(
    parts: Sequence[Sequence[str]],
    best: Sequence[Hypothesis],
    decode: Callable[[str], str],
    options: EnsembleOptions,
) -> Hypothesis:
    """Join one hypothesis for each part."""
    tokens: list[str] = []
    token_scores: list[float] = []
    alignment: list[tuple[int, int]] = []
    texts = []
    first_source = 0
    for part, hypothesis in zip(parts, best):
        alignment += [
            (first_source + source, len(tokens) + target)
            for source, target in hypothesis.alignment or ()
        ]
        first_source += len(part)
        tokens += hypothesis.tokens
        token_scores += hypothesis.token_scores
        # Line breaks would shift all further lines of the output.
        texts.append(as_sentence(decode(" ".join(hypothesis.tokens))))
    score = best[0].score
    if len(best) > 1:
        # Including the end of each part.
        lengths = [len(of_part.tokens) + 1 for of_part in best]
        log_probs = (options.log_prob(one.score, size) for one, size in zip(best, lengths))
        score = options.score(sum(log_probs), sum(lengths))
    return Hypothesis(
        " ".join(filter(None, texts)),
        score,
        tokens,
        token_scores,
        None if best[0].alignment is None else alignment,
        any(of_part.is_cut_off for of_part in best),
    )


def output_lines(
    translation: Translation, number: int, nbest: bool = False, scores: bool = False
) -> Iterator[str]:
    """The output lines of a translation.

    Args:
        translation: the translation.
        number: number of its line, counted from 1.
        nbest: whether to write all hypotheses: number, score and text, separated by tabs.
        scores: whether to write the score before the text.
    """
    if nbest:
        for hypothesis in translation.hypotheses:
            yield f"{number}\t{hypothesis.score:.4f}\t{hypothesis.text}\n"
    elif scores:
        yield f"{translation.score:.4f}\t{translation.text}\n"
    else:
        yield f"{translation.text}\n"


def alignment_lines(translation: Translation, nbest: bool = False) -> Iterator[str]:
    """The alignment that belongs to each output line: pairs ``source-target``, from 0."""
    for hypothesis in translation.hypotheses if nbest else translation.hypotheses[:1]:
        pairs = hypothesis.alignment or []
        yield " ".join(f"{source}-{target}" for source, target in pairs) + "\n"


def is_reported(translation: Translation) -> bool:
    """Whether the report has the line."""
    return translation.num_parts > 1 or translation.is_cut_off


def cut_off_remark(
    count: int, max_len_b: int, where: str = "", max_target_tokens: int | None = None
) -> str:
    """The remark about translations that ended at the largest length.

    Args:
        count: number of these translations.
        max_len_b: the option.
        where: text in parentheses about where they are listed.
        max_target_tokens: the largest number that the model allows; None if it allows more.
    """
    advice = f"give a larger --max-len-b than {max_len_b}"
    if max_target_tokens is not None and max_target_tokens <= max_len_b:
        advice = f"the model allows no more than {max_target_tokens:,} tokens, so split long lines"
    return f"{count:,} translation(s) may be cut off at the largest length{where}: {advice}."


def report_line(translation: Translation, number: int) -> str:
    """The line of the report: number, source tokens, parts and a remark, separated by tabs."""
    remarks = []
    if translation.num_parts > 1:
        remarks.append("longer than the model allows: split")
    if translation.is_cut_off:
        remarks.append("translation of the largest length: it may be cut off")
    columns = number, translation.num_tokens, translation.num_parts, "; ".join(remarks)
    return "\t".join(map(str, columns)) + "\n"
