"""Models of sub-words, learned on tokenized text with memory that does not grow with the text."""

import contextlib
import io
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ..common.errors import UserError
from ..common.output_files import atomic_write
from .symbols import escape, escape_joints
from .tokenizers import import_extra

# Byte-pair encoding is learned on the most frequent words; rarer ones change no important merge.
MAX_WORDS = 200_000
# More words than this are never counted at a time: those that occurred once are dropped.
MAX_COUNTED = 1_000_000
# Sentencepiece is learned on at most this many lines, spread over the text.
MAX_SENTENCES = 2_000_000
# A longer line, in bytes, is not used by sentencepiece (its own default).
MAX_SENTENCE_BYTES = 4192


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


class TooFewSubwords(UserError):
    """A vocabulary of sentencepiece has no room for the characters of the text.

    Args:
        size: the size of the vocabulary.
        least: the smallest size that has room for them.
    """

    def __init__(self, size: int, least: int):
        self.least = least
        super().__init__(
            f"sentencepiece cannot learn {size:,} sub-words on this text, whose characters alone "
            f"need {least:,}: give --bpe-size {least} or more."
        )


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
    Raises:
        TooFewSubwords: if the size is too small for the characters to keep.
        UserError: if it cannot be learned for another reason.
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
        if found := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
            raise TooFewSubwords(size, int(found[1])) from error
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
