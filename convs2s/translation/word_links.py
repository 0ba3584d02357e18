"""The links that the attention of a model draws between the words of given sentence pairs."""

from collections.abc import Sequence

from ..common.errors import UserError
from ..common.text_files import excerpt
from ..text import Preparation
from .buffers import TextProcessor
from .forced import score_pairs
from .translator import Translator


def model_links(
    translator: Translator, sources: Sequence[str], targets: Sequence[str]
) -> list[set[tuple[int, int]]]:
    """Link each target word with the source words to which its tokens attend most.

    The words of a line are separated by white space; each may consist of several tokens.

    Args:
        translator: the model or ensemble, and the preparation of its text.
        sources: N source lines.
        targets: N translations.
    Raises:
        UserError: if a line has other words after the preparation, or is too long for the model.
    """
    text = translator.text
    processors = (text.source, text.target) if isinstance(text, Preparation) else (text, text)
    words_of: list[tuple[list[int], list[int]]] = []
    pairs: list[tuple[str, str]] = []
    for number, lines in enumerate(zip(sources, targets, strict=True), start=1):
        (source, source_words), (target, target_words) = (
            words_of_tokens(processor, line, side, number)
            for processor, line, side in zip(processors, lines, ("source", "reference"))
        )
        pairs.append((source, target))
        words_of.append((source_words, target_words))
    return [
        {(source_words[s], target_words[t]) for s, t in pair.alignment or ()}
        for pair, (source_words, target_words) in zip(
            score_pairs(translator.ensemble, pairs, align=True), words_of
        )
    ]


def words_of_tokens(
    processor: TextProcessor, line: str, side: str, number: int
) -> tuple[str, list[int]]:
    """The tokens of a line, separated by spaces, and the number of the word of each token.

    Args:
        processor: makes tokens from text.
        line: words, separated by white space.
        side, number: for errors: "source" or "reference", and the number of the line.
    Raises:
        UserError: if the line as a whole has other tokens than its words one by one.
    """
    tokens = processor.encode(line).split()
    by_word = [processor.encode(word).split() for word in line.split()]
    if tokens != [token for word in by_word for token in word]:
        raise UserError(
            f"Line {number} of the {side} text, {excerpt(line)}, has other words after its "
            "tokenization, so that the numbers of the gold links do not apply: give text that is "
            "tokenized as that of the training, with --bpe-codes or, for sub-words, --raw."
        )
    return " ".join(tokens), [place for place, word in enumerate(by_word) for _ in word]
