"""Marks of spaces in tokens, where a detokenizer would not restore them.

A detokenizer guesses where spaces belong: it turns ``12 : 30`` into ``12: 30`` and ``10 %`` into
``10%``. If the text is spaced otherwise, tokens say so: in ``12 ￭:￭ 30``, the colon is joined with
both numbers, and in ``10 ￮%``, the sign is not joined with the number before it. Such a token is a
word to the detokenizer. Other tokens stay as they are, so that most lines have no marks.
"""

import re
from collections.abc import Callable, Collection, Sequence

# There is no space at this end of a token; there is one before a token; a mark that the text has.
JOINER, SPACER, ESCAPE = "￭", "￮", "￬"
_JOINT = re.compile(f" ?{JOINER} ?")
_MARK = re.compile(f"[{JOINER}{SPACER}{ESCAPE}]")
_NUMBERS = {JOINER: "0", SPACER: "1", ESCAPE: "2"}
_ESCAPED = re.compile(f"{ESCAPE}([012])")


def escape(text: str) -> str:
    """Text without ``JOINER`` and ``SPACER``."""
    return _MARK.sub(lambda mark: ESCAPE + _NUMBERS[mark[0]], text)


def restore(text: str) -> str:
    """The text of detokenized tokens that may have marks; also the inverse of ``escape``."""
    if _MARK.search(text) is None:
        return text
    text = _JOINT.sub("", text).replace(SPACER, "").strip()
    return _ESCAPED.sub(lambda mark: (JOINER, SPACER, ESCAPE)[int(mark[1])], text)


def mark(tokens: Sequence[str], text: str, detokenize: Callable[[str], str]) -> str:
    """Tokens of a text, with the marks that a detokenizer needs to restore it.

    Args:
        tokens: the tokens; words, separated by spaces, take their place if the text has more or
            different characters.
        text: the text, after ``escape``.
        detokenize: makes text from tokens that spaces separate, and restores it.
    Returns:
        The tokens, separated by spaces.
    """
    wanted, plain = restore(text), " ".join(tokens)
    guess = detokenize(plain)
    spaces = _spaces(tokens, text)
    if guess == wanted and spaces is not None:
        return plain
    if spaces is None:
        tokens = text.split()
        spaces = [number > 0 for number in range(len(tokens))]
        guess = detokenize(" ".join(tokens))
    guessed = _spaces(tokens, escape(guess)) or [not space for space in spaces]
    wrong = [n for n in range(1, len(tokens)) if spaces[n] != guessed[n]]
    # A mark at one of two tokens is enough; words have none if another token can have it.
    one = {n if tokens[n - 1][-1].isalnum() or not tokens[n][0].isalnum() else n - 1 for n in wrong}
    both = {place for n in wrong for place in (n - 1, n)}
    for places in (one, both, range(len(tokens))):
        marked = _marked(tokens, spaces, places)
        if detokenize(marked) == wanted:
            break
    return marked


def _spaces(tokens: Sequence[str], text: str) -> list[bool] | None:
    """Whether there is a space before each token of a text; None if it has other tokens."""
    place, found = 0, []
    for token in tokens:
        has_space = text.startswith(" ", place)
        place += has_space
        if not text.startswith(token, place):
            return None
        place += len(token)
        found.append(has_space)
    return found if place == len(text) else None


def _marked(tokens: Sequence[str], spaces: Sequence[bool], places: Collection[int]) -> str:
    """Tokens with marks at some places."""
    marked = list(tokens)
    for place in places:
        start = SPACER if spaces[place] or not place else JOINER
        end = JOINER if place + 1 < len(tokens) and not spaces[place + 1] else ""
        marked[place] = f"{start}{tokens[place]}{end}"
    return " ".join(marked)
