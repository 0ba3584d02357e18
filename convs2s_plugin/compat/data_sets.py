"""Parallel data sets: several of one split, sides that belong together, symbols in their places."""

import logging
import os
import re
from itertools import count
from typing import Any

import numpy as np
from fairseq.data import Dictionary, indexed_dataset
from fairseq.tasks import translation

from convs2s.common.errors import UserError

from .patches import Tier, patched

logger = logging.getLogger(__name__)

# The number of tokens that are checked at a time.
PART = 1 << 24


@patched(translation, "load_langpair_dataset", Tier.EXTRA)
def load_langpair_dataset(
    original: Any, data_path: str, split: str, *args: Any, **options: Any
) -> Any:
    """Load several training sets, such as ``train`` and ``train1``, each once.

    fairseq's default of --upsample-primary, -1, is an impossible number of copies. Parallel text
    whose sides differ in length is refused, and so are words that became special symbols: the model
    would learn to end its translations in the middle of a sentence.
    """
    if options.get("combine"):
        _warn_of_gaps(data_path, split)
    copies = options.get("upsample_primary", 1)
    if copies < -1:
        raise UserError(f"--upsample-primary is {copies}, but must be at least 0.")
    options["upsample_primary"] = 1 if copies == -1 else copies
    try:
        dataset = original(data_path, split, *args, **options)
    except AssertionError as error:
        if "same number" not in str(error):
            raise
        raise UserError(
            f"{split} in {data_path} has more sentences in one language than in the other, so they "
            "do not belong together: prepare the text again."
        ) from error
    # A source may have the symbol of the end between its sentences.
    for what, side, symbols, names in (
        ("source", dataset.src, dataset.src_dict, ["pad"]),
        ("target", dataset.tgt, dataset.tgt_dict, ["bos", "pad", "eos"]),
    ):
        if side is not None and symbols is not None:
            special = [getattr(symbols, name)() for name in names]
            _check_symbols(side, symbols, special, f"the {what} text of {split} in {data_path}")
    return dataset


def _warn_of_gaps(folder: str, split: str) -> None:
    """Warn about sets such as ``train2`` that fairseq ignores because there is no ``train1``."""
    found = [re.match(rf"{re.escape(split)}(\d+)\.", name) for name in os.listdir(folder)]
    numbers = {int(match[1]) for match in found if match}
    missing = next(number for number in count(1) if number not in numbers)
    for number in sorted(numbers - {*range(missing)}):
        logger.warning(
            f"{folder}: {split}{number} is not used: there is no {split}{missing}, and sets are "
            "counted without gaps"
        )


def _check_symbols(dataset: Any, symbols: Dictionary, special: list[int], name: str) -> None:
    """Check that special symbols are only at the ends of sentences.

    Args:
        dataset: the sentences of one language; the datasets inside fairseq's wrappers are checked.
        symbols: its dictionary.
        special: the symbols.
        name: name of the text, for the error.
    """
    for part in getattr(dataset, "datasets", [dataset]):
        while hasattr(part, "dataset"):
            part = part.dataset
        found = _symbol_inside(part, special)
        if found is not None:
            number, token = found
            raise UserError(
                f"Sentence {number + 1:,} of {name} has the special symbol {symbols[token]} as a "
                "word, and a model would learn to end or to fill sentences there: remove it from "
                "the text, or prepare the text with `convs2s prepare`, which keeps such words "
                "apart."
            )


def _symbol_inside(dataset: Any, special: list[int]) -> tuple[int, int] | None:
    """The number of the first sentence with a special symbol before its end, and the symbol."""
    if isinstance(dataset, indexed_dataset.MMapIndexedDataset):
        sizes = dataset.sizes.astype(np.int64)
        tokens = np.frombuffer(dataset._bin_buffer, dataset._index.dtype)
        ends = sizes.cumsum() - 1
        # Parts, so that little memory is used.
        for start in range(0, len(tokens), PART):
            places = start + np.flatnonzero(np.isin(tokens[start : start + PART], special))
            sentences = np.searchsorted(ends, places)
            inside = np.flatnonzero(ends[sentences] != places)
            if len(inside):
                return int(sentences[inside[0]]), int(tokens[places[inside[0]]])
        return None
    for number in range(0 if getattr(dataset, "supports_prefetch", False) else len(dataset)):
        found = {*dataset[number][:-1].tolist()}.intersection(special)
        if found:
            return number, min(found)
    return None
