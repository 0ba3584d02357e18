"""Learn sub-words on tokenized text, with memory that does not grow with the text."""

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..common.errors import UserError
from ..common.output_files import atomic_write
from ..common.text_files import read_lines
from .packages import import_extra

# Byte-pair encoding is learned on the most frequent words; rarer ones change no merge that matters.
MAX_WORDS = 200_000
# More words than this are never counted at a time: those that occurred once are dropped.
MAX_COUNTED = 1_000_000
# Sentencepiece is learned on at most so many lines, spread over the text.
MAX_SENTENCES = 2_000_000
# A longer line, in bytes, is not used by sentencepiece (its own default).
MAX_SENTENCE_BYTES = 4192

Update = Callable[[int], None]


def learn_subword_nmt(texts: Sequence[Path], size: int, path: Path, update: Update) -> None:
    """Learn byte-pair encoding with subword-nmt.

    Args:
        texts: tokenized text.
        size: number of merges; fewer are learned if no pair occurs twice.
        path: the codes to write.
        update: called with the number of lines that were read.
    """
    from subword_nmt.learn_bpe import learn_bpe

    counts = count_words(texts, update)
    words = io.StringIO("".join(f"{word} {n}\n" for word, n in counts.most_common(MAX_WORDS)))
    if all(len(word) < 2 for word in counts):
        raise UserError(
            f"All words of {' and '.join(map(str, texts))} have one character: there is nothing "
            "to split (--bpe none)."
        )
    with atomic_write(str(path)) as file, contextlib.redirect_stderr(io.StringIO()):
        learn_bpe(words, file, size, is_dict=True)


def learn_sentencepiece(
    texts: Sequence[Path], size: int, path: Path, coverage: float, lines: int, update: Update
) -> None:
    """Learn a unigram model with sentencepiece.

    Args:
        texts: tokenized text.
        size: size of the vocabulary; the model is smaller if the text has too few sub-words.
        path: the model to write.
        coverage: share of the characters to keep.
        lines: number of lines in all texts.
        update: called with the number of lines that were read.
    """
    package = import_extra("sentencepiece", "--bpe sentencepiece")
    step = -(-lines // MAX_SENTENCES)
    sample = (line for number, line in enumerate(_lines(texts, update)) if number % step == 0)
    model = io.BytesIO()
    try:
        package.SentencePieceTrainer.train(
            sentence_iterator=sample,
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=coverage,
            # The text is normalized already.
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


def count_words(texts: Sequence[Path], update: Update) -> Counter[str]:
    """Count the words of texts; rare ones are dropped if there are more than ``MAX_COUNTED``."""
    counts: Counter[str] = Counter()
    for line in _lines(texts, update):
        counts.update(line.split())
        if len(counts) > MAX_COUNTED:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
    return counts


def _lines(texts: Sequence[Path], update: Update) -> Iterator[str]:
    number = 0
    for path in texts:
        for line in read_lines(str(path)):
            number += 1
            update(number)
            yield line.rstrip("\n")
