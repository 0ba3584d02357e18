"""N-best lists, as fairseq-generate and ``convs2s translate --nbest`` write them."""

import itertools
import math
import re
from collections.abc import Collection
from typing import NamedTuple

from ..common.errors import UserError
from ..common.lines import excerpt
from ..common.text_files import line_error, read_sentences

# S source, T reference, H hypothesis in tokens, D the same as text.
OF_FAIRSEQ = re.compile(r"([A-Z])-(\d{1,18})\t(.*)", re.DOTALL)
OF_TRANSLATE = re.compile(r"(\d{1,18})\t(-?\d+(?:\.\d+)?|-inf)\t(.*)", re.DOTALL)


class Hypothesis(NamedTuple):
    """A translation in an n-best list.

    Attributes:
        text: plain text.
        tokens: the target tokens, separated by spaces.
        score: the score in the file: in base 2, with the length penalty; minus infinity if the
            model gives a token the probability 0.
    """

    text: str
    tokens: str
    score: float


class NBest(NamedTuple):
    """The hypotheses of one sentence, the best ones first; there is at least one.

    Attributes:
        hypotheses: the hypotheses.
        source: the source tokens; None if the file does not have them.
        reference: the reference; None if the file does not have it.
    """

    hypotheses: list[Hypothesis]
    source: str | None = None
    reference: str | None = None


def marked(output: str, mark: str) -> dict[int, list[str]]:
    """What fairseq-generate or fairseq-interactive printed with a mark: ``MARK-NUMBER<tab>...``.

    Args:
        output: what it printed.
        mark: "S" source tokens, "T" reference, "H" score, tab and tokens of a hypothesis, "D" the
            same as text.
    Returns:
        Number of a sentence -> what follows the tab in each of its lines, in their order.
    """
    found: dict[int, list[str]] = {}
    for match in map(OF_FAIRSEQ.fullmatch, output.split("\n")):
        if match and match[1] == mark:
            found.setdefault(int(match[2]), []).append(match[3])
    return found


def read_nbest(path: str, remove_bpe: str = "none") -> list[NBest]:
    """Read n-best lists, in the order of the text.

    Args:
        path: output of fairseq-generate or of ``convs2s translate --nbest``, compressed or not.
        remove_bpe: how sub-words are joined in text: "subword_nmt", "sentencepiece" or "none".
    Raises:
        UserError: if the file cannot be read, has no n-best lists, or none for a sentence.
    """
    lists: dict[int, list[Hypothesis]] = {}
    sources: dict[int, str] = {}
    references: dict[int, str] = {}
    first = 0
    for line_number, line in enumerate(read_sentences(path), start=1):
        if match := OF_FAIRSEQ.fullmatch(line):
            kind, number, rest = match[1], int(match[2]), match[3]
            if kind == "S":
                sources[number] = rest
            elif kind == "T":
                references[number] = join(rest, remove_bpe)
            elif kind == "H":
                score, _, tokens = rest.partition("\t")
                found = Hypothesis(
                    join(tokens, remove_bpe), tokens, parse_score(path, line_number, score)
                )
                lists.setdefault(number, []).append(found)
            elif kind == "D" and number in lists:
                text = join(rest.partition("\t")[2], remove_bpe)
                lists[number][-1] = lists[number][-1]._replace(text=text)
        elif match := OF_TRANSLATE.fullmatch(line):
            first = 1
            found = Hypothesis(match[3], match[3], float(match[2]))
            lists.setdefault(int(match[1]), []).append(found)
    if not lists:
        raise UserError(
            f"{path} has no n-best lists: give the output of `fairseq-generate --nbest N` or of "
            "`convs2s translate --nbest N`."
        )
    _check_complete(path, lists.keys(), first)
    return [
        NBest(hypotheses, sources.get(number), references.get(number))
        for number, hypotheses in sorted(lists.items())
    ]


def first_texts(output: str, mark: str, count: int | None = None) -> list[str]:
    """One text of each sentence in the output of fairseq-generate, in the order of the text.

    Args:
        output: the output.
        mark: "H" for the tokens of the best hypothesis, "T" for the reference, "S" for the source.
        count: number of sentences; None for the highest number in the output. A sentence without a
            text gets an empty one.
    """
    found = marked(output, mark)
    size = max(found, default=-1) + 1 if count is None else count
    # The best hypothesis comes first. In front of it is its score.
    return [found.get(number, [""])[0].rpartition("\t")[2] for number in range(size)]


def join(text: str, remove_bpe: str) -> str:
    """Join the sub-words of a text, as fairseq does."""
    if remove_bpe == "subword_nmt":
        return f"{text} ".replace("@@ ", "").rstrip()
    # Spaces are those of words if fairseq-generate has joined the sub-words (--bpe, --remove-bpe).
    if remove_bpe == "sentencepiece" and "\u2581" in text:
        return text.replace(" ", "").replace("\u2581", " ").strip()
    return text


def parse_score(path: str, line_number: int, text: str) -> float:
    """The score of a hypothesis.

    Raises:
        UserError: if it is not a number; it may be minus infinity.
    """
    try:
        score = float(text)
        if score < math.inf:
            return score
    except ValueError:
        pass
    raise line_error(
        path, line_number, f"{excerpt(text)} is not the score of a hypothesis, a number"
    )


def _check_complete(path: str, numbers: Collection[int], first: int) -> None:
    first = min(first, *numbers)
    count = max(numbers) + 1 - first
    if len(numbers) < count:
        missing = next(number for number in itertools.count(first) if number not in numbers)
        raise UserError(
            f"{path} has no hypothesis for sentence {missing} (counted from {first}; "
            f"{count - len(numbers):,} of {count:,} are missing): translate all of them, "
            "in one process."
        )
