"""Unknown words: which a text has, and their replacement by means of attention.

Replacement is that of ConvS2S, section 4.3.
"""

from collections.abc import Collection

from torch import Tensor

from .search import Symbols


def unknown_word(symbols: Symbols, text: str) -> str | None:
    """The first word of a text that the vocabulary does not have; ``<unk>`` is one it has."""
    for word in text.split():
        if symbols.index(word) == symbols.unk() and word != symbols[symbols.unk()]:
            return word
    return None


def aligned_sources(
    tokens: Tensor, source: Tensor, attention: Tensor, unknown: int, special: Collection[int]
) -> dict[int, int]:
    """The source token with the most attention for each unknown target token.

    Args:
        tokens: T target tokens.
        source: S source tokens.
        attention: T x S weights.
        unknown: the unknown word of the target vocabulary.
        special: source tokens that do not count: padding and end of the sentence.
    Returns:
        Position in ``tokens`` -> position in ``source``.
    """
    targets = [place for place, token in enumerate(tokens.tolist()) if token == unknown]
    sources = [place for place, token in enumerate(source.tolist()) if token not in special]
    if not targets or not sources:
        return {}
    best = attention[targets][:, sources].argmax(dim=1).tolist()
    return {target: sources[number] for target, number in zip(targets, best)}
