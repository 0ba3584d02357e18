"""Stages that read and write text in parts: clean, encode, sample; and joining the parts.

A part of a split has ``tokens.LANGUAGE``, and ``text.LANGUAGE`` for text that is held out: a
translation is scored against text without tokenization.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import compress
from pathlib import Path

from ..common.shards import WHOLE, Shard
from ..common.text_files import read_sentences
from . import parts
from .cleaning import REASONS, Limits, fault, pair_hash
from .parallel import mapper
from .parts import Counts, part, write_parts
from .preparation import Side
from .settings import Settings
from .sources import Languages, Pair, PairWriter
from .subwords import Tokenized, make_sampler, make_subwords
from .tokenizers import TOKENIZERS, of_sides

# Names of the files in a part.
TOKENS, TEXT = "tokens", "text"
# Names of files: of the hashes of a part, and of what was decided about each line of the text.
HASHES, DECISIONS = "hashes", "decisions"
# Decisions: dropped while cleaning, and so not in a part; for training; not for training.
UNWRITTEN, TRAINING, NOT_FOR_TRAINING = range(3)
# A pair, its tokens, their hash, and why it is dropped.
Cleaned = tuple[Pair, Pair, int, str | None]


def clean(
    folder: Path, name: str, settings: Settings, lines: int, workers: int, shard: Shard
) -> None:
    """Read, normalize and tokenize a text, and drop bad training pairs.

    Held-out text that is given stays as it is, line by line.

    Args:
        folder: folder of the parts.
        name: name of the split.
        settings: settings of the preparation.
        lines: number of its lines.
        workers: number of processes.
        shard: which parts to write.
    """
    text = settings.texts[name]
    with mapper(workers, _cleaner(settings, name)) as run:
        write_parts(
            folder,
            parts.part_sizes(lines),
            shard,
            f"Reading {name}",
            lambda numbers: run(text.pairs(numbers, parts.LINES)),
            partial(_write_cleaned, settings.languages, name != "train"),
        )


def hold_out(folder: Path, settings: Settings, lines: Sequence[int]) -> None:
    """Write a held-out set that is cut from the training text, as one part.

    Args:
        folder: folder of the part.
        settings: settings of the preparation.
        lines: numbers of its lines in the training text in ascending order, counted from 0.
    """
    convert = _cleaner(settings, "train")()
    write_parts(
        folder,
        [len(lines)],
        WHOLE,
        f"Holding out {folder.name}",
        lambda _: map(convert, settings.texts["train"].pairs(lines, 1)),
        partial(_write_cleaned, settings.languages, True),
    )


def _cleaner(settings: Settings, name: str) -> Callable[[], Callable[[Pair], Cleaned]]:
    limits = settings.limits if name == "train" else None
    languages, tokenizer = settings.languages, settings.tokenizer
    return partial(_tokenize, languages, tokenizer, settings.lowercase, limits)


def _tokenize(
    languages: Languages, tokenizer: str, lowercase: bool, limits: Limits | None
) -> Callable[[Pair], Cleaned]:
    """A function from a raw pair to the normalized one, its tokens, and its fault."""
    source, target = (
        Side(language, TOKENIZERS[name](language), Tokenized(), lowercase)
        for language, name in zip(languages, of_sides(tokenizer))
    )

    def run(pair: Pair) -> Cleaned:
        texts = source.normalize(pair[0]), target.normalize(pair[1])
        tokens = source.tokenizer.tokenize(texts[0]), target.tokenizer.tokenize(texts[1])
        reason = None if limits is None else fault(*tokens, limits)
        return texts, tokens, 0 if reason else pair_hash(*tokens), reason

    return run


def _write_cleaned(
    languages: Languages, is_held_out: bool, folder: Path, pairs: Iterable[Cleaned]
) -> Counts:
    """Write a part: the pairs that are kept, and a hash for each line, 0 for the others."""
    left_out = dict.fromkeys(REASONS, 0)
    hashes = array("Q")
    with ExitStack() as stack:
        tokenized = stack.enter_context(PairWriter(folder, TOKENS, languages))
        raw = stack.enter_context(PairWriter(folder, TEXT, languages)) if is_held_out else None
        for text, tokens, pair, reason in pairs:
            hashes.append(pair)
            if reason:
                left_out[reason] += 1
                continue
            tokenized.write(*tokens)
            if raw is not None:
                raw.write(*text)
    with open(folder / HASHES, "wb") as file:
        hashes.tofile(file)
    return {"left_out": left_out}


@dataclass(frozen=True)
class Tokens:
    """Tokenized text of a split, in the parts that ``clean`` or ``hold_out`` has written.

    Attributes:
        folder: folder of the parts.
        languages: source and target.
        sizes: number of pairs in each part.
        decisions: file of ``select``, which marks the pairs for training; None to take all.
    """

    folder: Path
    languages: Languages
    sizes: Sequence[int]
    decisions: Path | None = None

    def lines(self, language: str, number: int) -> Iterator[str]:
        """The lines of one language in a part."""
        lines = read_sentences(str(part(self.folder, number) / f"{TOKENS}.{language}"))
        if self.decisions is None:
            return lines
        with open(self.decisions, "rb") as file:
            file.seek(number * parts.LINES)
            decisions = file.read(parts.LINES)
        return compress(lines, (each == TRAINING for each in decisions if each != UNWRITTEN))

    def pairs(self, numbers: Iterable[int]) -> Iterator[Pair]:
        """The pairs of some parts."""
        source, target = self.languages
        for number in numbers:
            yield from zip(self.lines(source, number), self.lines(target, number))


def encode(
    folder: Path,
    text: Tokens,
    name: str,
    method: str,
    models: Sequence[Path | None],
    workers: int,
    shard: Shard,
) -> None:
    """Split tokenized text into sub-words.

    Args:
        folder: folder of the parts.
        text: the tokenized text.
        name: name of the split, for the progress.
        method: a key of ``METHODS``, or "none".
        models: the model of sub-words of each language.
        workers: number of processes.
        shard: which parts to write.
    """
    make = partial(split, method, tuple(models))
    title = f"Splitting {name} into sub-words"
    _write_subwords(folder, text, title, make, workers, shard)


def sample(
    folder: Path,
    text: Tokens,
    number: int,
    method: str,
    models: Sequence[Path],
    strength: float,
    workers: int,
    shard: Shard,
) -> None:
    """Split tokenized training text into sub-words at random.

    Args:
        folder, text, method, models, workers, shard: as for ``encode``.
        number: number of the segmentation, counted from 0.
        strength: see ``make_sampler``.
    """
    make = partial(_sample, method, tuple(models), strength, number)
    _write_subwords(folder, text, f"Sampling {folder.name}", make, workers, shard)


def _write_subwords(
    folder: Path,
    text: Tokens,
    title: str,
    make: Callable[[], Callable[[Pair], Pair]],
    workers: int,
    shard: Shard,
) -> None:
    """Write the sub-words of a text in parts, with "tokens" and "longest" as their counts."""

    def write(folder: Path, pairs: Iterable[Pair]) -> Counts:
        totals, longest = [0, 0], 0
        with PairWriter(folder, TOKENS, text.languages) as writer:
            for pair in pairs:
                writer.write(*pair)
                counts = [line.count(" ") + 1 if line else 0 for line in pair]
                totals = [total + count for total, count in zip(totals, counts)]
                longest = max(longest, *counts)
        return {"tokens": totals, "longest": longest}

    with mapper(workers, make) as run:
        write_parts(
            folder,
            text.sizes,
            shard,
            title,
            lambda numbers: run(text.pairs(numbers)),
            write,
        )


def _sample(
    method: str, models: tuple[Path, ...], strength: float, number: int
) -> Callable[[Pair], Pair]:
    """A function from a pair of tokenized lines to randomly drawn sub-words."""
    source, target = (make_sampler(method, model, strength, number) for model in models)
    return lambda pair: (source(pair[0]), target(pair[1]))


def split(method: str, models: tuple[Path | None, ...]) -> Callable[[Pair], Pair]:
    """A function from a pair of tokenized lines to their sub-words."""
    source, target = (make_subwords(method, model) for model in models)
    return lambda pair: (source.encode(pair[0]), target.encode(pair[1]))
