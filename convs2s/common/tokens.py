"""The tokens of a small language, for recursive-descent parsers."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from .errors import TextError
from .lines import excerpt

END = "the end"


class Token(NamedTuple):
    """A part of a text: its kind (a group of the pattern of tokens), and where it begins."""

    kind: str
    text: str
    position: int


class TokenParser:
    """The tokens of a text, and methods that consume them from left to right.

    Args:
        text: the text.
        source: its name in error messages, such as an option.
        pattern: a pattern of tokens, with a group for each kind; those of the group ``skip`` are
            omitted.
        max_length: the largest number of characters.
    Attributes:
        hints: characters without a meaning -> what may have been meant, for the error.
    Raises:
        TextError: if the text is too long or has a character without a meaning; the methods raise
            TextError if the text does not follow the grammar, or a number is out of range.
    """

    hints: Mapping[str, str] = {}

    def __init__(self, text: str, source: str, pattern: re.Pattern[str], max_length: int):
        self.text, self.source, self.next = text, source, 0
        if len(text) > max_length:
            raise self.error(
                f"{len(text)} characters are more than the {max_length} allowed", max_length
            )
        self.tokens: list[Token] = []
        position = 0
        while position < len(text):
            match = pattern.match(text, position)
            if match is None or match.lastgroup is None:
                found = text[position]
                hint = f": {self.hints[found]}" if found in self.hints else ""
                raise self.error(f"found '{found}', which has no meaning here{hint}", position)
            if match.lastgroup != "skip":
                self.tokens.append(Token(match.lastgroup, match.group(), position))
            position = match.end()
        self.tokens.append(Token("end", END, len(text.rstrip())))

    def error(self, message: str, position: int) -> TextError:
        """An error at a position of the text."""
        return TextError(message, self.text, position, self.source)

    @property
    def kind(self) -> str:
        """The kind of the next token; ``end`` if no token is left."""
        return self.tokens[self.next].kind

    @property
    def token(self) -> str:
        """The next token."""
        return self.tokens[self.next].text

    @property
    def position(self) -> int:
        """The position of the next token in the text."""
        return self.tokens[self.next].position

    def take(self) -> str:
        """Consume the next token."""
        self.next += 1
        return self.tokens[self.next - 1].text

    def accept(self, token: str) -> bool:
        """Consume the next token if it is ``token``; return whether it was."""
        found = self.token == token
        self.next += found
        return found

    def unexpected(self, expected: str) -> TextError:
        """An error that says what was expected instead of the next token."""
        found = END if self.kind == "end" else excerpt(self.token)
        return self.error(f"expected {expected}, found {found}", self.position)
