"""The options of a translation; needs neither torch nor fairseq."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from ..common.errors import UserError, check_names
from ..common.limits import check_at_least, option_name

# Lines that are sorted by length and translated together.
BUFFER_SIZE = 2000
# Source tokens in a batch; with a small beam, the second number divided by the beam.
MAX_TOKENS, MAX_BEAM_TOKENS = 4000, 10_000
# Values of --autocast-dtype.
AUTOCAST_DTYPES = ("none", "bfloat16", "float16")
# Values of --engine.
TORCH, CTRANSLATE2 = ENGINES = ("torch", "ctranslate2")
# Sizes of the candidate vocabulary, which a lexicon gives.
CANDIDATE_SIZES = ("candidates_per_word", "frequent_candidates")


@dataclass(frozen=True)
class SearchOptions:
    """How to search; the names are those of fairseq's options.

    Attributes:
        beam: beam size.
        lenpen: exponent of the length in the score.
        unnormalized: whether the score is the log-probability, without a length penalty.
        unkpen: what is subtracted from the log-probability of the unknown word.
        temperature: what the logits are divided by.
        min_len: smallest number of target tokens, without the end of the sentence.
        max_len_a, max_len_b: the largest number is ``max_len_a`` * S + ``max_len_b`` for the S
            source tokens of the sentence, its end included, and no less than ``min_len``.
    """

    beam: int = 5
    lenpen: float = 1.0
    unnormalized: bool = False
    unkpen: float = 0.0
    temperature: float = 1.0
    min_len: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200


# The options that may change between translations; the others belong to the loaded models.
OF_THE_SEARCH = (
    *(field.name for field in fields(SearchOptions)),
    "nbest",
    "max_tokens",
    "batch_size",
    "alignment",
)


@dataclass(frozen=True)
class EnsembleOptions(SearchOptions):
    """How an ensemble translates: how it searches, and what it computes.

    Attributes:
        nbest: number of hypotheses for each line, at most ``beam``.
        max_tokens: largest number of source tokens in a batch, padding and ends of sentences
            included; a longer sentence is a batch by itself. None for what suits the beam.
        batch_size: largest number of sentences in a batch; None for any number.
        autocast_dtype: "none", "bfloat16" or "float16".
        int8: whether to translate with weights in 8 bits; see the option of the task.
        lexicon: file of a lexicon that restricts the target vocabulary to candidates.
        candidates_per_word, frequent_candidates: sizes of the candidate vocabulary.
        replace_unk: how to replace unknown words: None to keep them, "" to copy the source word,
            or a file with translations of words.
        alignment: whether to align each translation with its source.
        device: name of the device, such as "cpu" or "cuda:1"; None for a GPU if there is one.
        engine: "torch", or "ctranslate2" for CTranslate2, which translates with transformers in ADL
            on a CPU.
    """

    nbest: int = 1
    max_tokens: int | None = None
    batch_size: int | None = None
    autocast_dtype: str = "none"
    int8: bool = False
    lexicon: str | None = None
    candidates_per_word: int = 20
    frequent_candidates: int = 500
    replace_unk: str | None = None
    alignment: bool = False
    device: str | None = None
    engine: str = TORCH

    @property
    def tokens_of_batch(self) -> int:
        """``max_tokens``; if it is None, more for a beam of 1 or 2, whose steps are small."""
        if self.max_tokens is not None:
            return self.max_tokens
        return max(MAX_TOKENS, MAX_BEAM_TOKENS // self.beam)

    def check(self) -> None:
        """Check the values.

        Raises:
            UserError: if a value is out of range.
        """
        check_at_least(self, beam=1, nbest=1, min_len=1, max_len_b=1, max_tokens=1, batch_size=1)
        if not 0 <= self.max_len_a < math.inf:
            raise UserError(
                f"--max-len-a is {self.max_len_a}: it must be a finite number of at least 0."
            )
        for name in ("lenpen", "unkpen", "temperature"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise UserError(f"--{name} is {value}: it must be a finite number.")
        if not self.temperature > 0:
            raise UserError(f"--temperature is {self.temperature}, but must be above 0.")
        if self.min_len > self.max_len_b and not self.max_len_a:
            raise UserError(
                f"--min-len is {self.min_len}, which is more than --max-len-b, {self.max_len_b}."
            )
        if self.nbest > self.beam:
            raise UserError(
                f"--nbest is {self.nbest}, but a beam search with --beam {self.beam} finds "
                f"{self.beam} translations: use a larger --beam or a smaller --nbest."
            )
        if self.autocast_dtype not in AUTOCAST_DTYPES:
            *others, last = AUTOCAST_DTYPES
            raise UserError(
                f"--autocast-dtype is {self.autocast_dtype}, but must be {', '.join(others)} or "
                f"{last}."
            )
        check_candidates(self)
        self._check_engine()

    def _check_engine(self) -> None:
        if self.engine not in ENGINES:
            raise UserError(f"--engine is {self.engine}, but must be {' or '.join(ENGINES)}.")
        if self.engine == TORCH:
            return
        for name, value, other in (
            ("alignment", self.alignment, False),
            ("replace_unk", self.replace_unk, None),
            ("lexicon", self.lexicon, None),
            ("unkpen", self.unkpen, 0.0),
            ("temperature", self.temperature, 1.0),
        ):
            if value != other:
                option = option_name(name)
                raise UserError(f"--engine {self.engine} has no {option}: omit one of them.")

    def for_search(self, options: dict[str, object]) -> "EnsembleOptions":
        """These options with some search options changed.

        Args:
            options: names of ``OF_THE_SEARCH``, and values.
        Raises:
            UserError: if an option is not one of the search, or has a value that is not allowed.
        """
        advice = " The others are set when a model is loaded."
        check_names(options, OF_THE_SEARCH, "the search", advice)
        changed = replace(self, **options)  # type: ignore[arg-type]
        changed.check()
        return changed

    def score(self, log_prob: float, length: int) -> float:
        """The score of a translation.

        Args:
            log_prob: the log-probability of the translation.
            length: number of its tokens, with the end of the sentence.
        """
        return log_prob if self.unnormalized else float(log_prob / length**self.lenpen)

    def log_prob(self, score: float, length: int) -> float:
        """The log-probability of a translation, from its score; see ``score``."""
        return score if self.unnormalized else float(score * length**self.lenpen)


def check_candidates(options: Any) -> None:
    """Check that sizes of the candidate vocabulary are given only with a lexicon.

    Args:
        options: has ``lexicon``, ``candidates_per_word`` and ``frequent_candidates``.
    Raises:
        UserError: if one is given without a lexicon.
    """
    for name in CANDIDATE_SIZES:
        value = getattr(options, name)
        if options.lexicon is None and value != getattr(EnsembleOptions, name):
            raise UserError(
                f"{option_name(name)} is {value}, but only a lexicon has candidates: give "
                f"--lexicon as well, or omit {option_name(name)}."
            )
