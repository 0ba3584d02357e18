r"""Words of the text that are also symbols of a vocabulary, or marks of sub-words.

A text may have ``</s>``, ``<unk>`` or ``madeupword0000`` as words: in pages about translation, or
in badly extracted HTML. In a vocabulary, these are the end of a sentence, an unknown word, and a
place without a word. Before sub-words are made, such words get a backslash, as in ``\</s>``, and
so do words that already have one, so that exactly the same text comes back.
"""

import re

_NAMES = r"(?:<s>|<pad>|</s>|<unk>|madeupword\d{4,})"
_SYMBOL = re.compile(_NAMES)
_WORD = re.compile(rf"(?<!\S)(?=\\*{_NAMES}(?!\S))")
_ESCAPED = re.compile(rf"(?<!\S)\\(?=\\*{_NAMES}(?!\S))")
# Ends of words that byte-pair encoding would mistake for its mark.
_JOINT = re.compile(r"(@@\\*)(?!\S)")
_ESCAPED_JOINT = re.compile(r"(@@\\*)\\(?!\S)")


def has_symbols(text: str) -> bool:
    """Whether a text may have the name of a symbol in it."""
    return ">" in text or "madeupword" in text


def is_symbol(token: str) -> bool:
    """Whether a token is the name of a symbol."""
    return _SYMBOL.fullmatch(token) is not None


def escape(words: str) -> str:
    r"""Words without symbols: ``</s>`` becomes ``\</s>``, and ``\</s>`` ``\\</s>``."""
    return _WORD.sub(r"\\", words) if has_symbols(words) else words


def unescape(words: str) -> str:
    """The words before ``escape``; symbols stay."""
    return _ESCAPED.sub("", words) if "\\" in words else words


def escape_joints(words: str) -> str:
    r"""Words that do not end in ``@@``: ``a@@`` becomes ``a@@\``, and ``a@@\`` ``a@@\\``."""
    return _JOINT.sub(r"\1\\", words) if "@@" in words else words


def unescape_joints(words: str) -> str:
    """The words before ``escape_joints``."""
    return _ESCAPED_JOINT.sub(r"\1", words) if "@@" in words else words
