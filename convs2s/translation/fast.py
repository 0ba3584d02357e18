"""A fast copy of a model: weights in 8 bits and shortlists, as far as they cost no quality."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..checkpoints.files import load_checkpoint, without_training
from ..checkpoints.quantized import quantized
from ..nn.int8 import is_supported
from ..text.lexicon.links import AlignedPair
from .forced import score_pairs
from .shortlist import ENTRY
from .translator import Translator

# Candidates of each source token, and frequent tokens of every batch; the fewest are tried first.
SIZES = ((20, 200), (50, 500), (100, 2000))
# The largest loss of BLEU on the validation text.
MAX_LOSS = 0.1


class Measured(NamedTuple):
    """What a model does with the validation text.

    Attributes:
        what: what is fast about it.
        options: those of the ``Translator`` that make it so.
        bleu: BLEU of its translations.
        speed: sentences per second of CPU time, which other programs hardly change.
    """

    what: str
    options: dict[str, Any]
    bleu: float
    speed: float


def align(path: str, preparation: Path, pairs: Sequence[tuple[str, str]]) -> Iterator[AlignedPair]:
    """Align the tokens of sentence pairs with the attention of a model.

    Pairs that are too long for the model are skipped.

    Args:
        path: the checkpoint.
        preparation: the folder of its preparation.
        pairs: source and target tokens.
    Raises:
        UserError: if the model has no attention.
    """
    ensemble = Translator(path, preparation=preparation, device="cpu").ensemble
    most = min(
        length
        for model in ensemble.search_models
        for length in (model.max_source_length, model.max_target_length)
    )
    words = [(source.split(), target.split()) for source, target in pairs]
    fitting = [number for number, sides in enumerate(words) if max(map(len, sides)) < most]
    for number, scored in zip(
        fitting, score_pairs(ensemble, [pairs[number] for number in fitting], align=True)
    ):
        yield *words[number], set(scored.alignment or ())


def measure(
    path: str,
    preparation: Path,
    lexicon: str,
    lines: Sequence[str],
    score: Callable[[list[str]], float],
    search: dict[str, Any],
) -> Iterator[Measured]:
    """Translate the validation text with an unchanged model, and then with what makes it faster.

    Args:
        path: the checkpoint.
        preparation: the folder of its preparation.
        lexicon: the file of a lexicon.
        lines: the text.
        score: the BLEU of translations of the text.
        search: the options of the search, by their names in ``SearchOptions``.
    """

    def with_options(what: str, **options: Any) -> Measured:
        translator = Translator(path, preparation=preparation, device="cpu", **search, **options)
        # What is made once is not measured.
        translator.translate(lines[:1])
        start = time.process_time()
        texts = [translation.text for translation in translator.translate(lines)]
        speed = len(lines) / (time.process_time() - start)
        return Measured(what, options, score(texts), speed)

    first = with_options("as it is")
    yield first
    least = first.bleu - MAX_LOSS
    precisions: list[tuple[str, dict[str, Any]]] = [("shortlists", {})]
    if is_supported():
        found = with_options("weights in 8 bits", int8=True)
        yield found
        eight_bits = "8 bits and shortlists", found.options
        # Both, if 8 bits alone lose too much: shortlists may make up for it.
        precisions = [eight_bits] if found.bleu >= least else [eight_bits, *precisions]
    for name, options in precisions:
        for per_word, frequent in SIZES:
            sizes = {"candidates_per_word": per_word, "frequent_candidates": frequent}
            what = f"{name}: {per_word} tokens per word, {frequent:,} for all"
            found = with_options(what, **options, lexicon=lexicon, **sizes)
            yield found
            if found.bleu >= least:
                break


def fastest(found: Sequence[Measured]) -> Measured:
    """The fastest one that is not worse than the first one by more than MAX_LOSS."""
    least = found[0].bleu - MAX_LOSS
    return max((each for each in found if each.bleu >= least), key=lambda each: each.speed)


def fast_checkpoint(path: str, preparation: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The content of a checkpoint whose model translates as it would with some options.

    Args:
        path: the checkpoint of the unchanged model.
        preparation: the folder of its preparation.
        options: the options of a ``Measured``.
    """
    if options.get("int8"):
        content = quantized(path).content
    else:
        content = without_training(load_checkpoint(path))
    ensemble = Translator(path, preparation=preparation, device="cpu", **options).ensemble
    if ensemble.shortlist is not None:
        content[ENTRY] = ensemble.shortlist.saved()
    return content
