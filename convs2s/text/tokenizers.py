"""Tokenizers: from text to tokens separated by spaces, and back.

``none`` leaves the text as it is, ``moses`` separates words and punctuation as the Moses toolkit
does, ``moses_fairseq`` also escapes special characters and splits words at hyphens, ``characters``
makes a token of each character.
"""

import functools
from collections.abc import Callable
from typing import Protocol

from .normalize import SPACE_MARK
from .packages import import_extra


class Tokenizer(Protocol):
    """Splits the text of one language into tokens."""

    def tokenize(self, text: str) -> str:
        """The tokens of a normalized line, separated by spaces."""

    def detokenize(self, tokens: str) -> str:
        """The text of such tokens."""


class NoTokenizer:
    """Words are what spaces separate."""

    def __init__(self, language: str):
        pass

    def tokenize(self, text: str) -> str:
        return text

    def detokenize(self, tokens: str) -> str:
        return tokens


class MosesTokenizer:
    """The Moses tokenizer, as sacremoses implements it.

    Unlike in Moses, special characters are not escaped by default: only its decoder needs that.
    fairseq's own programs do the same with ``--tokenizer moses --moses-no-escape
    --moses-no-dash-splits``.

    Args:
        language: its code chooses abbreviations and contractions; for a code that Moses does not
            know, it takes those of English.
        escape: write special characters as entities, as in ``&apos;s``.
        split_hyphens: separate the parts of words, as in ``well @-@ known``.
    """

    def __init__(self, language: str, escape: bool = False, split_hyphens: bool = False):
        sacremoses = import_extra("sacremoses", "The Moses tokenizer")
        code = language.replace("_", "-").partition("-")[0].lower()
        self._tokenizer = sacremoses.MosesTokenizer(code)
        self._detokenizer = sacremoses.MosesDetokenizer(code)
        self._escape, self._split_hyphens = escape, split_hyphens

    def tokenize(self, text: str) -> str:
        if not text:
            return ""
        tokens: str = self._tokenizer.tokenize(
            text,
            return_str=True,
            escape=self._escape,
            aggressive_dash_splits=self._split_hyphens,
        )
        return tokens

    def detokenize(self, tokens: str) -> str:
        text: str = self._detokenizer.detokenize(tokens.split(), unescape=self._escape)
        return text


class CharacterTokenizer:
    """Each character is a token, and a space is the token ``▁``."""

    def __init__(self, language: str):
        pass

    def tokenize(self, text: str) -> str:
        return " ".join(text.replace(" ", SPACE_MARK))

    def detokenize(self, tokens: str) -> str:
        # An unknown character is <unk>, which is longer than one character.
        return "".join(tokens.split()).replace(SPACE_MARK, " ").strip()


TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    "none": NoTokenizer,
    "moses": MosesTokenizer,
    # The tokenizer of fairseq's scripts for WMT, and of its programs with --tokenizer moses.
    "moses_fairseq": functools.partial(MosesTokenizer, escape=True, split_hyphens=True),
    "characters": CharacterTokenizer,
}
