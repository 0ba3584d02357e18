"""Errors that a user can correct; they are shown as one sentence without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

# The environment variable that asks for tracebacks.
TRACEBACK_VARIABLE = "CONVS2S_TRACEBACK"
# The beginning of the message for a training run that diverged.
NOT_FINITE = "The gradient of a batch is infinite or not a number"


def nearest(name: str, allowed: Iterable[str]) -> str:
    """``" (did you mean 'cnn'?)"`` for a name like ``cn``; empty if no allowed name is similar."""
    found = get_close_matches(name, list(allowed), n=1)
    return f" (did you mean '{found[0]}'?)" if found else ""


class UserError(ValueError):
    """An error in the input; the message says what was given, what is allowed and what to do."""


def check_names(given: Iterable[str], allowed: Iterable[str], what: str, advice: str = "") -> None:
    """Check the names of options that a function takes by keyword.

    Args:
        given: the names.
        allowed: the names of all options.
        what: what the options belong to, for the error.
        advice: what else to say.
    Raises:
        UserError: if a name is not allowed; the error has the nearest one, or otherwise all.
    """
    names = sorted(allowed)
    for name in given:
        if name not in names:
            near = nearest(name, names) or f"; allowed: {', '.join(names)}"
            raise UserError(f"{name} is not an option of {what}{near}.{advice}")


class WorkInterrupted(UserError):
    """The machine failed, not the input: the disk is full, or a process has ended.

    What is already done stays, and the same command can continue.
    """


class SequenceTooLong(UserError):
    """A sequence has more tokens than a layer has positions for.

    Args:
        length: number of tokens in the sequence.
        limit: number of positions.
    """

    def __init__(self, length: int, limit: int):
        self.length, self.limit = length, limit
        super().__init__(f"A sequence has {length} tokens, but at most {limit} are allowed.")


class EmptySequence(UserError):
    """A source sentence has no tokens; attention needs one.

    Args:
        number: its number in the batch.
    """

    def __init__(self, number: int):
        super().__init__(
            f"Source sentence {number} of the batch (counted from 0) has only padding: each needs "
            "a token, such as the end of the sentence."
        )


class TextError(UserError):
    """An error at one position of a text; the message shows the line with a caret below it.

    Args:
        message: what was found and what is allowed, without the full stop.
        text: the whole text.
        position: index of the wrong character in ``text``, counted from 0.
        source: name of the text, such as an option.

    Attributes:
        line, column: the position, both counted from 1.
    """

    def __init__(self, message: str, text: str, position: int, source: str = "text"):
        before = text[:position]
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1
        start = max(0, self.column - 61)
        excerpt = text.split("\n")[self.line - 1][start : start + 100]
        caret = " " * (self.column - 1 - start) + "^"
        super().__init__(
            f"{source}, line {self.line}, column {self.column}: {message}.\n  {excerpt}\n  {caret}"
        )
