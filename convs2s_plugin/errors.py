"""Errors that a user can act on: one sentence, no traceback.

Knows neither torch nor fairseq.
"""


class UserError(ValueError):
    """Something that was given cannot work; the message is a sentence that says what to do."""


class TextError(UserError):
    """A refusal of a piece of text, with the place that it is about.

    Args:
        message: what was found and what is allowed, without the closing full stop.
        text: the whole text that was being read.
        position: index into ``text`` of the offending character, from 0.
        source: what the text is, e.g. the option that it was given to.

    Attributes:
        line, column: the place, both counted from 1.
    """

    def __init__(self, message: str, text: str, position: int, source: str = "text"):
        before = text[:position]
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1
        shown = text.split("\n")[self.line - 1]
        start = max(0, self.column - 61)
        excerpt = shown[start : start + 100]
        caret = " " * (self.column - 1 - start) + "^"
        super().__init__(
            f"{source}, line {self.line}, column {self.column}: {message}.\n  {excerpt}\n  {caret}"
        )
