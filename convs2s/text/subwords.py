"""Sub-words: from tokens to sub-words separated by spaces, and back.

``none`` keeps the tokens, ``subword_nmt`` applies byte-pair encoding (Sennrich et al., 2016),
``sentencepiece`` a unigram language model (Kudo, 2018). ``learning`` makes their models.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ..common.errors import UserError
from .normalize import SPACE_MARK
from .packages import import_extra

# Words whose sub-words are remembered, which bounds the memory.
CACHED_WORDS = 100_000
_JOINED = re.compile(r"@@( |$)")


class Subwords(Protocol):
    """Splits tokens into sub-words."""

    def split(self, tokens: str) -> str:
        """The sub-words of a line of tokens, separated by spaces."""

    def join(self, subwords: str) -> str:
        """The tokens of a line of sub-words."""


class NoSubwords:
    """Tokens are not split."""

    def split(self, tokens: str) -> str:
        return tokens

    def join(self, subwords: str) -> str:
        return subwords


class SubwordNmt:
    """Byte-pair encoding by subword-nmt: ``wi@@ e@@ se``.

    Args:
        path: the codes that it learned.
    """

    def __init__(self, path: Path):
        from subword_nmt.apply_bpe import BPE

        with _opened(path).open(encoding="utf-8") as file:
            try:
                self._bpe = BPE(file)
            except (SystemExit, ValueError) as error:
                raise UserError(f"{path} has no codes of subword-nmt.") from error

    def split(self, tokens: str) -> str:
        if len(self._bpe.cache) > CACHED_WORDS:
            self._bpe.cache.clear()
        subwords: str = self._bpe.process_line(tokens)
        return subwords

    def join(self, subwords: str) -> str:
        return _JOINED.sub("", subwords)


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

    def split(self, tokens: str) -> str:
        return " ".join(self._processor.encode(tokens, out_type=str))

    def join(self, subwords: str) -> str:
        return subwords.replace(" ", "").replace(SPACE_MARK, " ").strip()


METHODS: dict[str, Callable[[Path], Subwords]] = {
    "subword_nmt": SubwordNmt,
    "sentencepiece": SentencePiece,
}


def _opened(path: Path) -> Path:
    """The path, if it is a file."""
    if not path.is_file():
        raise UserError(f"There is no file {path} with the model of sub-words.")
    return path
