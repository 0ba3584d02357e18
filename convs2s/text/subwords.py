"""Sub-words: from tokens to sub-words separated by spaces, and back.

``none`` keeps the tokens, ``subword_nmt`` applies byte-pair encoding (Sennrich et al., 2016),
``sentencepiece`` a unigram language model (Kudo, 2018).
"""

import contextlib
import io
import math
import random
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from ..common.errors import UserError
from ..common.lines import check_text
from .cleaning import MAX_TOKEN_LENGTH
from .symbols import (
    escape,
    escape_joints,
    has_symbols,
    is_symbol,
    unescape,
    unescape_joints,
)
from .tokenizers import SPACE_MARK, import_extra

# Words whose sub-words are remembered, which bounds the memory.
CACHED_WORDS = 100_000
# What byte-pair encoding puts at the end of each sub-word of a word except the last.
MARK = "@@"
_JOINED = re.compile(rf"{MARK}( |$)")
# The time of byte-pair encoding grows with the square of the length of a word: longer ones are cut.
_TOO_LONG = re.compile(rf"[^ ]{{{MAX_TOKEN_LENGTH}}}(?=[^ ])")
# Versions of codes that subword-nmt can apply.
CODES = ((0, 1), (0, 2))
# Sampling chooses among this many of the best segmentations (Kudo 2018).
SAMPLED = 64


class Subwords(Protocol):
    """Splits tokens into sub-words."""

    def encode(self, line: str) -> str:
        """The sub-words of a line of tokens, separated by spaces."""

    def decode(self, tokens: str) -> str:
        """The tokens of a line of sub-words."""


class Tokenized:
    """Tokens, separated by white space, are not split."""

    def encode(self, line: str) -> str:
        return " ".join(line.split())

    def decode(self, tokens: str) -> str:
        return tokens


class SubwordNmt:
    """Byte-pair encoding by subword-nmt: ``wi@@ e@@ se``.

    Args:
        path: the codes that it learned.
    Raises:
        UserError: if the file cannot be read.
    """

    def __init__(self, path: Path):
        from subword_nmt.apply_bpe import BPE

        file_path = _opened(path)
        try:
            # It also prints its errors.
            with (
                file_path.open(encoding="utf-8") as file,
                contextlib.redirect_stderr(io.StringIO()),
            ):
                self._bpe = BPE(file)
        except (OSError, SystemExit, ValueError) as error:
            raise UserError(f"{path} has no codes of subword-nmt.") from error
        check_codes(self._bpe, path)

    def encode(self, line: str) -> str:
        if len(self._bpe.cache) > CACHED_WORDS:
            # Not cleared: another thread may be about to look up a word in it.
            self._bpe.cache = {}
        return self._split(line)

    def sample(self, line: str, strength: float, seed: int) -> str:
        # The package draws from Python's random generator, which others may use, too.
        state = random.getstate()
        random.seed(seed)
        tokens = self._split(line, strength)
        random.setstate(state)
        # It also remembers words that it has split at random.
        self._bpe.cache = {}
        return tokens

    def _split(self, line: str, dropout: float = 0.0) -> str:
        # The pieces of a word are joined as sub-words are.
        line = escape_joints(line)
        found = _TOO_LONG.finditer(line) if len(line) > MAX_TOKEN_LENGTH else ()
        cuts = [0, *(each.end() for each in found), len(line)]
        pieces = [line[start:end] for start, end in zip(cuts, cuts[1:])]
        tokens = f"{MARK} ".join(self._bpe.process_line(piece, dropout) for piece in pieces)
        return _split_symbols(tokens, MARK)

    def decode(self, tokens: str) -> str:
        return unescape_joints(_JOINED.sub("", tokens))


def check_codes(bpe: Any, path: str | Path) -> None:
    """Check the version of codes; subword-nmt does so when it applies them.

    Args:
        bpe: a ``BPE`` of subword-nmt.
        path: its file, for the error.
    Raises:
        UserError: if the version is unknown.
    """
    if bpe.version not in CODES:
        found, *known = (".".join(map(str, version)) for version in (bpe.version, *CODES))
        raise UserError(
            f"{path} has codes of subword-nmt of version {found}; versions {' and '.join(known)} "
            "are known: learn them again, or correct its first line."
        )


class SentencePiece:
    """A model of sentencepiece: ``▁wie se``.

    Args:
        path: the model.
    """

    def __init__(self, path: Path):
        package = import_extra("sentencepiece", f"{path.name}, a model of sub-words,")
        try:
            self._processor = package.SentencePieceProcessor(model_file=str(_opened(path)))
        except (OSError, RuntimeError) as error:
            raise UserError(f"{path} is not a model of sentencepiece.") from error

    def encode(self, line: str) -> str:
        check_text(line, "The line")
        return _split_symbols(" ".join(self._processor.encode(line, out_type=str)))

    def sample(self, line: str, strength: float, seed: int) -> str:
        best = self._processor.nbest_encode(line, nbest_size=SAMPLED, out_type="proto").nbests
        weights = [math.exp(strength * (each.score - best[0].score)) for each in best]
        (chosen,) = random.Random(seed).choices(best, weights)
        return _split_symbols(" ".join(piece.piece for piece in chosen.pieces))

    def decode(self, tokens: str) -> str:
        return tokens.replace(" ", "").replace(SPACE_MARK, " ").strip()


class Escaped:
    """Sub-words of words, some of which may be symbols; see ``symbols``.

    Args:
        subwords: splits the words.
    """

    def __init__(self, subwords: Subwords):
        self._subwords = subwords

    def encode(self, line: str) -> str:
        return self._subwords.encode(escape(line))

    def decode(self, tokens: str) -> str:
        return unescape(self._subwords.decode(tokens))


METHODS: dict[str, type[SubwordNmt] | type[SentencePiece]] = {
    "subword_nmt": SubwordNmt,
    "sentencepiece": SentencePiece,
}


def make_subwords(method: str, model: Path | None) -> Subwords:
    """The sub-words of a language.

    Args:
        method: a key of ``METHODS``, or "none".
        model: the file of their model; None with "none".
    """
    return Escaped(Tokenized() if model is None else METHODS[method](model))


def make_sampler(method: str, model: Path, strength: float, number: int) -> Callable[[str], str]:
    """A function that splits lines of tokens into sub-words at random, but repeatably.

    Args:
        method: a key of ``METHODS``. ``subword_nmt`` skips merges (BPE-dropout, Provilkov et
            al. 2020); ``sentencepiece`` draws one of the best segmentations (Kudo 2018).
        model: the file of the model.
        strength: probability of skipping a merge, or the exponent of the probabilities of the best
            segmentations: the smaller, the more they differ.
        number: number of the segmentation. Within one, a line always has the same sub-words.
    """
    subwords = METHODS[method](model)

    def sample(line: str) -> str:
        return subwords.sample(escape(line), strength, zlib.crc32(f"{number} {line}".encode()))

    return sample


def _split_symbols(tokens: str, mark: str = "") -> str:
    """Sub-words without symbols: those are split into characters.

    Args:
        tokens: the sub-words.
        mark: what every sub-word of a word except the last ends in.
    """
    if not has_symbols(tokens):
        return tokens
    return " ".join(
        f"{mark} ".join(token) if is_symbol(token) else token for token in tokens.split(" ")
    )


def _opened(path: Path) -> Path:
    """The path, which must be a file."""
    if not path.is_file():
        raise UserError(f"There is no file {path} with the model of sub-words.")
    return path
