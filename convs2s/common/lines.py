"""Lines of text as sentences.

Some programs end lines at other characters than a line feed, too (``LINE_ENDS``). A sentence has a
space in place of each, so that all programs count the same lines in what is written from it.
"""

import re

from .errors import UserError

EXCERPT_LENGTH = 60
# What some programs treat as the end of a line, as ``str.splitlines`` does.
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_SPACES = str.maketrans(dict.fromkeys(LINE_ENDS, " "))
_SURROGATE = re.compile("[\ud800-\udfff]")


def excerpt(text: str) -> str:
    """Quote text for an error message, shortened to EXCERPT_LENGTH characters."""
    text = text.strip()
    return f"'{text}'" if len(text) <= EXCERPT_LENGTH else f"'{text[:EXCERPT_LENGTH]}...'"


def without_end(line: str) -> str:
    """A line without its end, a line feed or a carriage return and a line feed."""
    return line.removesuffix("\n").removesuffix("\r")


def as_sentence(line: str) -> str:
    """A line without its end, and with a space in place of each character of ``LINE_ENDS``."""
    line = without_end(line)
    return line if line.isprintable() else line.translate(_SPACES)


def check_text(text: object, name: str) -> None:
    """Check that an object is text that can be written in UTF-8.

    Args:
        text: the object.
        name: what it is, for the error.
    Raises:
        UserError: if it is of another type, or has lone surrogates, which Python makes of bytes
            that are not UTF-8.
    """
    if not isinstance(text, str):
        raise UserError(f"{name} is not text, but {excerpt(repr(text))}.")
    if not text.isascii() and (found := _SURROGATE.search(text)):
        raise UserError(
            f"{name} is not text: its character {found.start() + 1} is U+{ord(found[0]):X}, half a "
            "character, which Python makes of bytes that are not UTF-8: decode these correctly."
        )
