"""The settings of a preparation, and their defaults."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..common.errors import UserError, nearest
from .cleaning import Limits
from .sources import Languages, ParallelText, fingerprint
from .tokenizers import OF_CHARACTERS, TOKENIZERS, language_code, of_sides

SPLITS = ("train", "valid", "test")
# Languages that are written without spaces, and with thousands of characters.
UNSPACED = ("zh", "ja", "th", "lo", "km", "my", "yue", "wuu")
MANY_CHARACTERS = ("zh", "ja", "ko", "yue", "wuu")
# Default limits of a side, in tokens.
MAX_LENGTH, MAX_CHARACTERS = 175, 1000
MAX_RATIO = 3.0
# Default size of the sub-words from this number of training pairs on.
SIZES = {0: 2_000, 10_000: 8_000, 200_000: 16_000, 1_000_000: 32_000}
# Default number of words in each vocabulary without sub-words.
WORDS = 50_000
# Default number of segmentations of training text whose sub-words are sampled.
SEGMENTATIONS = 10


class Earlier(NamedTuple):
    """What a preparation takes from an earlier one, in place of learning it.

    Attributes:
        record: the file ``preparation.yaml`` of that one.
        subwords: the file of the sub-words of each language; None without sub-words.
        dictionaries: the dictionary of each language.
    """

    record: Path
    subwords: tuple[Path | None, Path | None]
    dictionaries: tuple[Path, Path]


@dataclass(frozen=True)
class Settings:
    """The choices of a preparation.

    Attributes:
        languages: source and target.
        texts: "train", "valid" and "test" -> the text; held-out text may be missing.
        tokenizer: a key of ``TOKENIZERS``, or two of them for source and target, with a slash
            between.
        method: method of the sub-words: "none" or a key of ``METHODS``.
        size: merges of subword_nmt, vocabulary size of sentencepiece, or words to keep with "none";
            None for the default.
        joint: whether both languages share a model of sub-words and a dictionary.
        lowercase: whether to change all text to lower case.
        limits: limits of training pairs.
        sizes: "valid" and "test" -> pairs to cut from the training text; None for the default.
        dropout: how strongly sub-words of training text are sampled, see ``make_sampler``; None if
            they are not.
        segmentations: number of segmentations of the training text, with sampling; the first one is
            not sampled.
        like: an earlier preparation with the sub-words and dictionaries; None to learn them.
    """

    languages: Languages
    texts: dict[str, ParallelText]
    tokenizer: str
    method: str
    size: int | None
    joint: bool
    lowercase: bool
    limits: Limits
    sizes: dict[str, int | None]
    dropout: float | None = None
    segmentations: int = SEGMENTATIONS
    like: Earlier | None = None

    def __post_init__(self) -> None:
        for name in of_sides(self.tokenizer):
            if name not in TOKENIZERS:
                raise UserError(
                    f"--tokenizer is '{self.tokenizer}', but there is no tokenizer '{name}'"
                    f"{nearest(name, TOKENIZERS)}: choose {', '.join(TOKENIZERS)}, or one for the "
                    "source and one for the target, such as letters/none."
                )
            if name in OF_CHARACTERS and self.method != "none":
                raise UserError(
                    f"--tokenizer {name} makes a token of each character, which --bpe "
                    f"{self.method} cannot split: use --bpe none, or another tokenizer."
                )
        if self.dropout is not None:
            if not 0.0 < self.dropout < 1.0:
                raise UserError(f"--bpe-dropout is {self.dropout}: it must be above 0 and below 1.")
            if self.method == "none":
                raise UserError(
                    f"--bpe-dropout {self.dropout} samples sub-words, but --bpe none makes none."
                )
            if self.segmentations < 2:
                raise UserError(
                    f"--segmentations is {self.segmentations}: it must be at least 2, the plain "
                    "one and those that --bpe-dropout samples."
                )
        elif self.segmentations != SEGMENTATIONS:
            raise UserError(
                f"--segmentations {self.segmentations} needs --bpe-dropout, such as 0.1."
            )
        for option, value, least in (
            # A dictionary of words has the special symbols, and one word at least.
            ("--bpe-size", self.size, 5 if self.method == "none" else 1),
            ("--max-length", self.limits.length, 1),
            ("--max-ratio", self.limits.ratio, 1),
            ("--valid-size", self.sizes["valid"], 1),
            ("--test-size", self.sizes["test"], 0),
        ):
            if value is not None and not least <= value < math.inf:
                raise UserError(f"{option} is {value}: it must be a number of at least {least}.")
        for name, size in self.sizes.items():
            if name in self.texts and size is not None:
                raise UserError(
                    f"--{name} gives files and --{name}-size {size} would cut some pairs from the "
                    "training text: choose one."
                )

    @property
    def cut(self) -> dict[str, int | None]:
        """The held-out sets to cut from the training text -> their pairs; None for the default."""
        return {
            name: size for name, size in self.sizes.items() if name not in self.texts and size != 0
        }

    def recorded(self) -> dict[str, Any]:
        """Option -> value, of all options that change the result."""
        texts = {name: text.fingerprint() for name, text in self.texts.items()}
        return {
            "--source-lang": self.languages[0],
            "--target-lang": self.languages[1],
            **{f"--{name}": texts.get(name) for name in SPLITS},
            "--tokenizer": self.tokenizer,
            "--bpe": self.method,
            "--bpe-size": self.size,
            "--separate": not self.joint,
            "--lowercase": self.lowercase,
            "--max-length": self.limits.length,
            "--max-ratio": self.limits.ratio,
            "--keep-duplicates": self.limits.duplicates,
            **{f"--{name}-size": size for name, size in self.sizes.items()},
            "--bpe-dropout": self.dropout,
            "--segmentations": None if self.dropout is None else self.segmentations,
            "--like": None if self.like is None else fingerprint([self.like.record]),
        }


def default_method(tokenizer: str | None, languages: Languages) -> str:
    """The default of ``--bpe``.

    Args:
        tokenizer: the tokenizer that was chosen; None for the default.
        languages: source and target.
    """
    if tokenizer is not None and not set(OF_CHARACTERS).isdisjoint(of_sides(tokenizer)):
        return "none"
    unspaced = any(language_code(language) in UNSPACED for language in languages)
    return "sentencepiece" if unspaced else "subword_nmt"


def default_tokenizer(method: str) -> str:
    """The default of ``--tokenizer``: sentencepiece reads text without a tokenizer."""
    return "none" if method == "sentencepiece" else "moses"


def default_length(tokenizer: str) -> int:
    """The default of ``--max-length``."""
    words = set(OF_CHARACTERS).isdisjoint(of_sides(tokenizer))
    return MAX_LENGTH if words else MAX_CHARACTERS


def default_size(pairs: int) -> int:
    """The default of ``--bpe-size`` for a number of training pairs.

    The more text, the more sub-words are frequent enough to be learned. 10,000 merges are those of
    fairseq's recipe for IWSLT'14 (160,000 pairs), 32,000 those of most papers on WMT; less text
    needs fewer (Sennrich and Zhang, 2019).
    """
    return next(size for least, size in reversed(SIZES.items()) if pairs >= least)


def coverage(languages: Languages) -> float:
    """The share of characters that sentencepiece keeps, as its documentation advises."""
    return 0.9995 if any(language_code(one) in MANY_CHARACTERS for one in languages) else 1.0


def dictionary_limit(settings: Settings) -> int | None:
    """The most entries of a dictionary; None without a limit."""
    if settings.method != "none":
        return None
    only_characters = set(of_sides(settings.tokenizer)) <= set(OF_CHARACTERS)
    return settings.size or (None if only_characters else WORDS)
