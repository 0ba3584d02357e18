"""The lines that ``convs2s translate`` writes; needs neither torch nor fairseq."""

from collections.abc import Iterator

from .results import Translation

REPORT_HEADER = "line\ttokens\tparts\tremark\n"


def output_lines(
    translation: Translation, number: int, nbest: bool = False, scores: bool = False
) -> Iterator[str]:
    """The output lines of a translation.

    Args:
        translation: the translation.
        number: number of its line, counted from 1.
        nbest: write all hypotheses: number, score and text, separated by tabs.
        scores: write the score before the text.
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


def report_line(translation: Translation, number: int) -> str:
    """The line of the report: number, source tokens, parts and a remark, separated by tabs."""
    remarks = []
    if translation.num_parts > 1:
        remarks.append("longer than the model allows: split")
    if translation.is_cut_off:
        remarks.append("translation as long as --max-len-b allows: it may be cut off")
    columns = number, translation.num_tokens, translation.num_parts, "; ".join(remarks)
    return "\t".join(map(str, columns)) + "\n"
