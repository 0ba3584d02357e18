"""Sub-words: from tokens to sub-words separated by spaces, and back.

``none`` keeps the tokens, ``subword_nmt`` applies byte-pair encoding (Sennrich et al., 2016),
``sentencepiece`` a unigram language model (Kudo, 2018). Their models are learned on tokenized text,
with memory that does not grow with the text.
"""

import contextlib
import io
import math
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from ..common.errors import UserError
from ..common.lines import check_text
from ..common.output_files import atomic_write
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
# Byte-pair encoding is learned on the most frequent words; rarer ones change no important merge.
MAX_WORDS = 200_000
# More words than this are never counted at a time: those that occurred once are dropped.
MAX_COUNTED = 1_000_000
# Versions of codes that subword-nmt can apply.
CODES = ((0, 1), (0, 2))
# Sentencepiece is learned on at most this many lines, spread over the text.
MAX_SENTENCES = 2_000_000
# Sampling chooses among this many of the best segmentations (Kudo 2018).
SAMPLED = 64
# A longer line, in bytes, is not used by sentencepiece (its own default).
MAX_SENTENCE_BYTES = 4192


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
        return _split_symbols(self._bpe.process_line(escape_joints(line)), MARK)

    def sample(self, line: str, strength: float, seed: int) -> str:
        # The package draws from Python's random generator, which others may use, too.
        state = random.getstate()
        random.seed(seed)
        tokens = self._bpe.process_line(escape_joints(line), strength)
        random.setstate(state)
        # It also remembers words that it has split at random.
        self._bpe.cache = {}
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


def learn_subword_nmt(counts: Counter[str], size: int, path: Path) -> None:
    """Learn byte-pair encoding with subword-nmt.

    Args:
        counts: counts of the words of tokenized text, see ``count_words``.
        size: number of merges; fewer are learned if no pair occurs twice.
        path: the codes to write.
    """
    from subword_nmt.learn_bpe import learn_bpe

    words = io.StringIO("".join(f"{word} {n}\n" for word, n in counts.most_common(MAX_WORDS)))
    if all(len(word) < 2 for word in counts):
        raise UserError(
            "All words of the training text have one character: there is nothing to split "
            "(--bpe none)."
        )
    with atomic_write(str(path)) as file, contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(words, file, size, is_dict=True)


def learn_sentencepiece(
    text: Iterable[str], size: int, path: Path, coverage: float, lines: int
) -> None:
    """Learn a unigram model with sentencepiece.

    Args:
        text: lines of tokenized text.
        size: size of the vocabulary; the model is smaller if the text has too few sub-words.
        path: the model to write.
        coverage: share of the characters to keep.
        lines: number of the lines.
    """
    package = import_extra("sentencepiece", "--bpe sentencepiece")
    step = -(-lines // MAX_SENTENCES)
    sample = (line for number, line in enumerate(map(escape, text)) if number % step == 0)
    model = io.BytesIO()
    try:
        package.SentencePieceTrainer.train(
            sentence_iterator=sample,
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=coverage,
            # The text is already normalized.
            normalization_rule_name="identity",
            max_sentence_length=MAX_SENTENCE_BYTES,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = " ".join(str(error).split()).rpartition("] ")[2]
        raise UserError(
            f"sentencepiece cannot learn {size:,} sub-words on this text ({reason}): give another "
            "--bpe-size."
        ) from error
    path.write_bytes(model.getvalue())


def count_words(text: Iterable[str], counts: Counter[str] | None = None) -> Counter[str]:
    """Count the words of more text; rare ones are dropped if they are more than ``MAX_COUNTED``.

    Args:
        text: lines of tokenized text.
        counts: counts of the earlier text, to add to; None if there is none.
    """
    counts = Counter() if counts is None else counts
    for line in map(escape, text):
        # As subword-nmt does, which splits at no other white space.
        counts.update(filter(None, escape_joints(line).split(" ")))
        least, most = 2, MAX_COUNTED
        while len(counts) > most:
            # There must be room for many lines.
            most = MAX_COUNTED * 9 // 10
            counts = Counter({word: count for word, count in counts.items() if count >= least})
            least += 1
    return counts
