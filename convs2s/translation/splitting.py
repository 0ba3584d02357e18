"""Splitting of tokens that are longer than a model allows; needs neither torch nor fairseq."""

import re
from collections.abc import Sequence

# Ends of sentences and of clauses, and what may follow them: closing quotes and brackets.
_CLOSERS = r"""["'”’»«›‹“)\]}」』）]|&quot;|&apos;|&#93;"""
_SENTENCE_END = re.compile(rf"(?:[.!?…。！？．]|\.\.\.)(?:{_CLOSERS})*$")
_CLAUSE_END = re.compile(rf"[,;:，；：、–—](?:{_CLOSERS})*$")
_ONLY_CLOSERS = re.compile(rf"(?:{_CLOSERS})+$")

# How good a cut is.
WITHIN_WORD, BETWEEN_WORDS, AFTER_CLAUSE, AFTER_SENTENCE = range(4)


def split(tokens: Sequence[str], limit: int) -> list[list[str]]:
    """Split tokens into parts of at most ``limit`` tokens.

    Each part ends at the last end of a sentence within the limit; if there is none, at the last
    end of a clause, then between words, then between any two tokens.

    Args:
        tokens: the tokens of a line; sub-words are marked as by subword-nmt (``@@`` at the end of
            all but the last of a word) or SentencePiece (``▁`` at the start of a word).
        limit: largest number of tokens in a part, at least 1.
    Returns:
        The parts; together, they are the tokens.
    """
    if len(tokens) <= limit:
        return [list(tokens)]
    quality = cuts(tokens)
    parts = []
    start = 0
    while len(tokens) - start > limit:
        # On a tie, max() takes the first: go backwards for the longest part.
        end = max(range(start + limit, start, -1), key=lambda end: quality[end])
        parts.append(list(tokens[start:end]))
        start = end
    return [*parts, list(tokens[start:])]


def cuts(tokens: Sequence[str]) -> list[int]:
    """How good a cut before each token, and at the end, is.

    Returns:
        ``len(tokens) + 1`` numbers, from WITHIN_WORD to AFTER_SENTENCE.
    """
    marks_starts = any(token.startswith("▁") for token in tokens)
    found = [BETWEEN_WORDS]
    # The best cut after the tokens so far, were a word to end here.
    after = BETWEEN_WORDS
    for i, token in enumerate(tokens):
        text = token.removesuffix("@@").strip("▁")
        if not _ONLY_CLOSERS.match(text) and text:
            after = _cut_after(text)
        following = tokens[i + 1] if i + 1 < len(tokens) else None
        if following is None:
            found.append(AFTER_SENTENCE)
        elif token.endswith("@@") or (marks_starts and not following.startswith("▁")):
            found.append(WITHIN_WORD)
        elif after > BETWEEN_WORDS and _ONLY_CLOSERS.match(following.strip("▁")):
            # A quote or bracket that closes stays with its sentence.
            found.append(BETWEEN_WORDS)
        else:
            found.append(after)
    return found


def _cut_after(text: str) -> int:
    if _SENTENCE_END.search(text):
        return AFTER_SENTENCE
    return AFTER_CLAUSE if _CLAUSE_END.search(text) else BETWEEN_WORDS
