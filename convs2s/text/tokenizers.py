"""From a line of text to tokens separated by spaces, and back: normalization and tokenizers.

The characters of a text decide its vocabulary, so two spellings of one character must not remain.
Compatibility characters (NFKC) are left unchanged: they carry meaning, like the superscript in
``10²``, and a translation could not restore them.

The tokenizer ``none`` leaves the text as it is, ``moses`` separates words and punctuation as the
Moses toolkit does, and marks spaces that the Moses detokenizer would not restore, ``moses_fairseq``
escapes special characters and splits words at hyphens, and has no such marks, ``moses_scripts``
normalizes punctuation and escapes special characters, as the scripts of Moses do by default,
``characters`` makes a token of each character, ``letters`` of each part of a decomposed one: the
letters of a Korean syllable, a letter and its accent. ``letters/none`` is for two languages:
``letters`` for the source, ``none`` for the target.
"""

import functools
import re
import unicodedata
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from ..common.errors import UserError
from . import spacing

# The mark of spaces in characters and in sentencepiece's sub-words, U+2581.
SPACE_MARK = "\N{LOWER ONE EIGHTH BLOCK}"
_SPACES = re.compile(r"\s+")
# Words in Latin, Greek and Cyrillic script, commas and a full stop come back without marks, in each
# language. Numbers do not in Czech, and question marks not in French.
_LETTER = "[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0386-\u03ff\u0400-\u0481\u048a-\u0513]"
_PLAIN = re.compile(rf"({_LETTER}+,? )*{_LETTER}+\.?")
_REMOVED = (
    *(code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"),
    0xAD,
    0x61C,
    0x200B,
    0x200E,
    0x200F,
    0xFEFF,
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2065),
    *range(0x2066, 0x2070),
)
# Character -> what takes its place; None removes it.
_CHANGES = {
    **{code: " " if chr(code).isspace() else None for code in _REMOVED},
    ord(SPACE_MARK): "_",
}


def normalize(line: str, lowercase: bool = False) -> str:
    """Normalize a line.

    * Characters are composed (NFC).
    * Each run of white space becomes one space; there is none at the ends.
    * Control characters are removed, and so are format characters that are not seen: the byte order
      mark, the soft hyphen, marks of direction, zero-width spaces. The zero-width joiner and
      non-joiner stay, since several scripts need them.
    * U+2581, which marks spaces in tokens, becomes an underscore.

    Args:
        line: text; a line end is white space.
        lowercase: whether to change it to lower case as well.
    """
    if not line.isascii():
        line = unicodedata.normalize("NFC", line.translate(_CHANGES))
    elif not line.isprintable():
        line = line.translate(_CHANGES)
    line = _SPACES.sub(" ", line).strip()
    if lowercase:
        line = line.lower()
        # A letter may be composed in lower case only, as j with a caron is.
        line = line if line.isascii() else unicodedata.normalize("NFC", line)
    return line


class Tokenizer(Protocol):
    """Splits the text of one language into tokens."""

    def tokenize(self, text: str) -> str:
        """The tokens of a normalized line, separated by spaces."""

    def detokenize(self, tokens: str) -> str:
        """The text of such tokens."""


class NoTokenizer:
    """Spaces separate words."""

    def tokenize(self, text: str) -> str:
        return text

    def detokenize(self, tokens: str) -> str:
        return tokens


class MosesTokenizer:
    """The Moses tokenizer, as sacremoses implements it.

    Unlike in Moses, special characters are not escaped by default: only its decoder needs that.
    fairseq's own programs do the same with ``--tokenizer moses --moses-no-escape
    --moses-no-dash-splits``; text does not always come back.

    Args:
        language: its code chooses abbreviations and contractions; for a code that Moses does not
            know, those of English are used.
        escape: whether to write special characters as entities, as in ``&apos;s``.
        split_hyphens: whether to separate the parts of words, as in ``well @-@ known``.
        normalize: whether to write quotation marks, apostrophes and dashes in ASCII.
    """

    def __init__(
        self,
        language: str,
        escape: bool = False,
        split_hyphens: bool = False,
        normalize: bool = False,
    ):
        sacremoses = import_extra("sacremoses", "The Moses tokenizer")
        code = language_code(language)
        self._tokenizer = sacremoses.MosesTokenizer(code)
        self._detokenizer = sacremoses.MosesDetokenizer(code)
        self._punctuation = sacremoses.MosesPunctNormalizer(code) if normalize else None
        self._escape, self._split_hyphens = escape, split_hyphens

    def tokenize(self, text: str) -> str:
        if not text:
            return ""
        if self._punctuation is not None:
            text = self._punctuation.normalize(text)
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


class ReversibleMoses(MosesTokenizer):
    """The same without escapes, with marks where text would not come back; see ``spacing``."""

    def tokenize(self, text: str) -> str:
        text = spacing.escape(text)
        tokens = super().tokenize(text)
        if _PLAIN.fullmatch(text):
            return tokens
        return spacing.mark(tokens.split(), text, self.detokenize)

    def detokenize(self, tokens: str) -> str:
        return spacing.restore(super().detokenize(tokens))


class CharacterTokenizer:
    """Each character is a token, and a space is the token ``▁``."""

    def tokenize(self, text: str) -> str:
        return " ".join(text.replace(" ", SPACE_MARK))

    def detokenize(self, tokens: str) -> str:
        # An unknown character is <unk>, which is longer than one character.
        return "".join(tokens.split()).replace(SPACE_MARK, " ").strip()


class LetterTokenizer(CharacterTokenizer):
    """The same with decomposed characters (NFD), which share their letters and accents."""

    def tokenize(self, text: str) -> str:
        return super().tokenize(unicodedata.normalize("NFD", text))

    def detokenize(self, tokens: str) -> str:
        return unicodedata.normalize("NFC", super().detokenize(tokens))


# Tokenizers that make no words.
OF_CHARACTERS = ("characters", "letters")
# Each makes the tokenizer of a language.
TOKENIZERS: dict[str, Callable[[str], Tokenizer]] = {
    "none": lambda language: NoTokenizer(),
    "moses": ReversibleMoses,
    # The tokenizer of fairseq's scripts for WMT, and of its programs with --tokenizer moses.
    "moses_fairseq": functools.partial(MosesTokenizer, escape=True, split_hyphens=True),
    # normalize-punctuation.perl and tokenizer.perl, as for Multi30k.
    "moses_scripts": functools.partial(MosesTokenizer, escape=True, normalize=True),
    "characters": lambda language: CharacterTokenizer(),
    "letters": lambda language: LetterTokenizer(),
}


def of_sides(name: str) -> tuple[str, str]:
    """The names of the tokenizers of source and target; both have one unless there is a slash."""
    source, slash, target = name.partition("/")
    return source, target if slash else source


def make_tokenizer(name: str, language: str, marks_spaces: bool) -> Tokenizer:
    """The tokenizer of a language.

    Args:
        name: a key of ``TOKENIZERS``.
        language: the language.
        marks_spaces: False for the tokenizer ``moses`` of text that was prepared without marks.
    """
    if name == "moses" and not marks_spaces:
        return MosesTokenizer(language)
    return TOKENIZERS[name](language)


def language_code(language: str) -> str:
    """The language of a code with a region or a script, such as zh_CN."""
    return language.replace("_", "-").partition("-")[0].lower()


def import_extra(module: str, used_by: str) -> Any:
    """Import a package of the extra ``text``.

    Args:
        module: the package.
        used_by: the setting that needs it, for the error.
    Raises:
        UserError: if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{used_by} needs the package {module}, which is not installed here: "
            'run `pip install "convs2s-plugin[text]"`.'
        ) from error
