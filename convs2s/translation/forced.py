"""Scores and alignments of given translations, which the models did not produce."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..common.errors import UserError
from ..common.lines import excerpt
from ..common.progress import show_progress
from .alignment import hard_alignment, shifted
from .buffers import TextProcessor
from .decoding import Forced, mean_log_probs
from .ensemble import Ensemble, batches_by_size, numbers, padded_before
from .text import target_text


class ScoredPair(NamedTuple):
    """What models say about a source sentence and its translation.

    Logarithms are in base 2, as fairseq prints them; times ``math.log(2)`` they are natural.

    Attributes:
        score: the mean of ``token_scores``.
        tokens: T target tokens, the end of the sentence included.
        token_scores: the log-probability of each.
        alignment: pairs of source and target token, counted from 0; None if not asked for.
    """

    score: float
    tokens: list[str]
    token_scores: list[float]
    alignment: list[tuple[int, int]] | None = None

    @property
    def log_prob(self) -> float:
        """The log-probability of the translation."""
        return sum(self.token_scores)


def score_pairs(
    ensemble: Ensemble, pairs: Sequence[tuple[str, str]], align: bool = False
) -> list[ScoredPair]:
    """Score translations, in batches of similar length.

    Args:
        ensemble: the models.
        pairs: source and target tokens, separated by spaces.
        align: whether to align each target token with the source token of the highest attention.
    Raises:
        UserError: if a sentence is too long for the models, with ``--lexicon``, or if
            alignments are needed, but the models have no attention.
    """
    if ensemble.options.lexicon is not None:
        raise UserError(
            "Scores of given translations need the whole vocabulary, but --lexicon restricts it to "
            "the candidates of a batch: omit it."
        )
    numbered = [
        (numbers(source.split(), ensemble.source), numbers(target.split(), ensemble.target))
        for source, target in pairs
    ]
    lengths = [(len(source), len(target)) for source, target in numbered]
    _check_lengths(ensemble, lengths)
    order = sorted(range(len(pairs)), key=lambda number: lengths[number][::-1])
    scored: dict[int, ScoredPair] = {}
    progress = show_progress(unit="pairs", total=len(pairs))
    for batch in batches_by_size(order, list(map(max, lengths)), ensemble.options.tokens_of_batch):
        # Some encoders need the longest sentence first.
        batch.sort(key=lambda number: -lengths[number][0])
        sources, targets = zip(*(numbered[number] for number in batch))
        forced = _score(ensemble, sources, targets, align)
        for row, (number, source, target) in enumerate(zip(batch, sources, targets)):
            log_probs = forced.log_probs[row, : len(target)]
            score = float(log_probs.sum() / len(target)) / math.log(2)
            tokens = [ensemble.target[token] for token in target.tolist()]
            alignment = None
            if align:
                alignment = _alignment(ensemble, forced.attention, row, source, target)
            token_scores = (log_probs / math.log(2)).tolist()
            scored[number] = ScoredPair(score, tokens, token_scores, alignment)
        progress.update(len(batch))
    progress.close()
    return [scored[number] for number in range(len(pairs))]


@torch.no_grad()
def _score(
    ensemble: Ensemble, sources: Sequence[Tensor], targets: Sequence[Tensor], align: bool
) -> Forced:
    """The mean of all models for one batch."""
    device, pad = ensemble.device, ensemble.target.pad()
    source = padded_before(sources, ensemble.source.pad()).to(device)
    target = pad_sequence(list(targets), True, pad).to(device)
    previous = shifted(targets, ensemble.target.eos(), pad).to(device)
    with ensemble.autocast():
        each = [
            model.score(model.encode(source), previous, target, align)
            for model in ensemble.search_models
        ]
    weights = [forced.attention.float() for forced in each if forced.attention is not None]
    return Forced(
        mean_log_probs([forced.log_probs for forced in each]).cpu(),
        torch.stack(weights).mean(dim=0).cpu() if weights else None,
    )


def _alignment(
    ensemble: Ensemble, attention: Tensor | None, row: int, source: Tensor, target: Tensor
) -> list[tuple[int, int]]:
    if attention is None:
        raise UserError("Alignments need attention weights, but the model returns none.")
    # The batch has padding before a source.
    of_pair = attention[row, : len(target), -len(source) :]
    return hard_alignment(of_pair, source, target, ensemble.source.pad(), ensemble.source.eos())


def _check_lengths(ensemble: Ensemble, lengths: Sequence[tuple[int, int]]) -> None:
    """Check that no sentence is too long for the models."""
    most_source = min(model.max_source_length for model in ensemble.search_models)
    most_target = min(model.max_target_length for model in ensemble.search_models)
    for number, (source, target) in enumerate(lengths, start=1):
        if source > most_source or target > most_target:
            raise UserError(
                f"Sentence pair {number} (counted from 1) has {source} x {target} tokens, ends of "
                f"sentences included, but the model reads at most {most_source} x {most_target}."
            )


def model_links(
    ensemble: Ensemble, text: TextProcessor, sources: Sequence[str], targets: Sequence[str]
) -> list[set[tuple[int, int]]]:
    """Link each target word with the source words to which its tokens attend most.

    The words of a line are separated by white space; each may consist of several tokens.

    Args:
        ensemble: the models.
        text: the preparation of source text; see ``target_text``.
        sources: N source lines.
        targets: N translations.
    Raises:
        UserError: if the preparation changes the words of a line, or it is too long for the model.
    """
    processors = (text, target_text(text))
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
            score_pairs(ensemble, pairs, align=True), words_of
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
            "tokenization, so the numbers of the gold links do not apply: give text that is "
            "tokenized like the training text, with --bpe-codes or, for sub-words, --raw."
        )
    return " ".join(tokens), [place for place, word in enumerate(by_word) for _ in word]
