"""Stages that read and write text: clean, cut, encode.

A folder of a stage has ``tokenized/SPLIT.LANGUAGE``, and ``text/SPLIT.LANGUAGE`` for text that is
or may be held out: a translation is scored against text without tokenization.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ..common.errors import UserError
from ..common.progress import Progress
from .cleaning import REASONS, Cleaner, HashSet, choose_held_out, held_out_size, pair_hash
from .parallel import mapper
from .preparation import TEXT, Side
from .settings import SPLITS, Settings
from .sources import Languages, Pair, PairWriter, read_pairs
from .subwords import Tokenized, make_sampler, make_subwords
from .tokenizers import TOKENIZERS, of_sides

TOKENIZED = "tokenized"


def clean(folder: Path, settings: Settings, workers: int) -> dict[str, Any]:
    """Read, normalize and tokenize all text, and leave out bad training pairs.

    Held-out text that is given stays as it is, line by line.

    Args:
        folder: to write to.
        settings: of the preparation.
        workers: number of processes.
    Returns:
        "read": split -> number of pairs; "left_out": reason -> number of training pairs.
    """
    languages = settings.languages
    held_out = HashSet()
    cleaner = Cleaner(settings.limits, held_out)
    read: dict[str, int] = {}
    make = partial(_tokenize, languages, settings.tokenizer, settings.lowercase)
    with mapper(workers, make) as run:
        # The training text comes last: pairs of held-out text are left out of it.
        for name in reversed(SPLITS):
            text = settings.texts.get(name)
            if text is None:
                continue
            read[name] = 0
            with ExitStack() as stack:
                tokenized = stack.enter_context(PairWriter(folder / TOKENIZED, name, languages))
                raw = None
                if name != "train" or settings.cut:
                    raw = stack.enter_context(PairWriter(folder / TEXT, name, languages))
                pairs = Progress(run(text.pairs()), "pairs", f"Reading {name}")
                for lines, tokens in pairs:
                    read[name] += 1
                    if name != "train":
                        held_out.add(pair_hash(*tokens))
                    elif not cleaner.keeps(*tokens):
                        continue
                    tokenized.write(*tokens)
                    if raw is not None:
                        raw.write(*lines)
            if not read[name]:
                raise UserError(f"{' and '.join(text.paths)} ({text.option}) has no lines.")
    if read["train"] == sum(cleaner.counts.values()):
        reasons = [f"{count:,} {REASONS[name]}" for name, count in cleaner.counts.items() if count]
        raise UserError(
            f"No training pair is left after cleaning: {', '.join(reasons)}. Check that the "
            "files are translations of each other, line by line, and change the limits "
            "(--max-length, --max-ratio)."
        )
    return {"read": read, "left_out": cleaner.counts}


def cut(folder: Path, cleaned: Path, settings: Settings, pairs: int) -> dict[str, Any]:
    """Cut the held-out sets that are not given from the training text.

    A pair that equals a held-out one is not kept for training.

    Args:
        folder: to write to.
        cleaned: folder of the stage ``clean``.
        settings: of the preparation.
        pairs: number of training pairs.
    Returns:
        split -> number of pairs, of train and the new sets; "also_held_out": number of pairs that
        equal a held-out one.
    """
    languages = settings.languages
    sizes = {name: size or held_out_size(pairs) for name, size in settings.cut.items()}
    chosen = choose_held_out(pairs, sizes)
    held_out = HashSet()
    for number, pair in enumerate(read_pairs(cleaned / TOKENIZED, "train", languages)):
        if number in chosen:
            held_out.add(pair_hash(*pair))
    counts = {**dict.fromkeys(sizes, 0), "train": 0, "also_held_out": 0}
    with ExitStack() as stack:
        tokenized = {
            name: stack.enter_context(PairWriter(folder / TOKENIZED, name, languages))
            for name in ("train", *sizes)
        }
        raw = {
            name: stack.enter_context(PairWriter(folder / TEXT, name, languages)) for name in sizes
        }
        texts = read_pairs(cleaned / TEXT, "train", languages)
        tokens = read_pairs(cleaned / TOKENIZED, "train", languages)
        both = Progress(zip(texts, tokens, strict=True), "pairs", "Holding out", pairs)
        for number, (line, pair) in enumerate(both):
            name = chosen.get(number, "train")
            if name == "train" and pair_hash(*pair) in held_out:
                counts["also_held_out"] += 1
                continue
            counts[name] += 1
            tokenized[name].write(*pair)
            if name != "train":
                raw[name].write(*line)
    if not counts["train"]:
        raise UserError(
            f"No training pair is left: all {counts['also_held_out']:,} that are not held out "
            "equal pairs that are. The text has too few different pairs."
        )
    return counts


def encode(
    folder: Path,
    texts: dict[str, Path],
    languages: Languages,
    method: str,
    models: Sequence[Path | None],
    workers: int = 1,
) -> dict[str, Any]:
    """Split tokenized text into sub-words.

    Args:
        folder: to write to.
        texts: split -> folder of its tokenized text.
        languages: source and target.
        method: a key of ``METHODS``, or "none".
        models: the model of sub-words of each language.
        workers: number of processes.
    Returns:
        "tokens": split -> number of tokens of source and target; "longest": split -> most tokens in
        a line.
    """
    tokens, longest = {}, {}
    make = partial(_split, method, tuple(models))
    with mapper(workers, make) as run:
        for name, path in texts.items():
            totals, most = [0, 0], 0
            with PairWriter(folder, name, languages) as writer:
                pairs = run(read_pairs(path, name, languages))
                for pair in Progress(pairs, "pairs", f"Splitting {name} into sub-words"):
                    writer.write(*pair)
                    counts = [line.count(" ") + 1 if line else 0 for line in pair]
                    totals = [total + count for total, count in zip(totals, counts)]
                    most = max(most, *counts)
            tokens[name], longest[name] = totals, most
    return {"tokens": tokens, "longest": longest}


def _tokenize(
    languages: Languages, tokenizer: str, lowercase: bool
) -> Callable[[Pair], tuple[Pair, Pair]]:
    """A function from a raw pair to the normalized one and its tokens."""
    source, target = (
        Side(language, TOKENIZERS[name](language), Tokenized(), lowercase)
        for language, name in zip(languages, of_sides(tokenizer))
    )

    def run(pair: Pair) -> tuple[Pair, Pair]:
        texts = source.normalize(pair[0]), target.normalize(pair[1])
        return texts, (source.tokenizer.tokenize(texts[0]), target.tokenizer.tokenize(texts[1]))

    return run


def sample(
    folder: Path,
    text: Path,
    languages: Languages,
    method: str,
    models: Sequence[Path],
    strength: float,
    segmentations: Sequence[str],
    workers: int = 1,
) -> dict[str, int]:
    """Split tokenized training text into sub-words at random, several times.

    Args:
        folder: to write to; it has the plain sub-words already.
        text: folder of the tokenized text.
        languages: source and target.
        method: a key of ``METHODS``.
        models: the model of sub-words of each language.
        strength: see ``make_sampler``.
        segmentations: their names.
        workers: number of processes.
    Returns:
        segmentation -> number of its pairs.
    """
    counts = {}
    for number, name in enumerate(segmentations):
        with (
            mapper(workers, partial(_sample, method, tuple(models), strength, number)) as run,
            PairWriter(folder, name, languages) as writer,
        ):
            pairs = run(read_pairs(text, "train", languages))
            count = 0
            for pair in Progress(pairs, "pairs", f"Sampling {name}"):
                writer.write(*pair)
                count += 1
            counts[name] = count
    return counts


def _sample(
    method: str, models: tuple[Path, ...], strength: float, number: int
) -> Callable[[Pair], Pair]:
    """A function from a pair of tokenized lines to sub-words that are drawn."""
    source, target = (make_sampler(method, model, strength, number) for model in models)
    return lambda pair: (source(pair[0]), target(pair[1]))


def _split(method: str, models: tuple[Path | None, ...]) -> Callable[[Pair], Pair]:
    """A function from a pair of tokenized lines to their sub-words."""
    source, target = (make_subwords(method, model) for model in models)
    return lambda pair: (source.encode(pair[0]), target.encode(pair[1]))
