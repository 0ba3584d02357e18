"""Scores and alignments that models give to translations that they did not make."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..common.errors import UserError
from .alignment import hard_alignment, shifted
from .batches import batches_by_size, padded_before
from .decoding import Forced, mean_log_probs
from .ensemble import Ensemble, numbers


class ScoredPair(NamedTuple):
    """What models say about a source sentence and its translation.

    Attributes:
        score: the mean log-probability of the tokens in base 2, end of the sentence included.
        alignment: pairs of source and target token, counted from 0; None if not asked for.
    """

    score: float
    alignment: list[tuple[int, int]] | None


def score_pairs(
    ensemble: Ensemble, pairs: Sequence[tuple[str, str]], align: bool = False
) -> list[ScoredPair]:
    """Score translations, in batches of similar length.

    Args:
        ensemble: the models.
        pairs: source and target tokens, separated by spaces.
        align: whether to align each target token with the source token of the highest attention.
    Raises:
        UserError: if a sentence is too long for the models, if the ensemble has a shortlist, or if
            alignments are needed, but the models have no attention.
    """
    if ensemble.options.lexicon is not None:
        raise UserError(
            "Scores of given translations need the whole vocabulary, but --lexicon restricts it to "
            "the candidates of a batch: leave one of them out."
        )
    numbered = [
        (numbers(source.split(), ensemble.source), numbers(target.split(), ensemble.target))
        for source, target in pairs
    ]
    lengths = [(len(source), len(target)) for source, target in numbered]
    _check_lengths(ensemble, lengths)
    order = sorted(range(len(pairs)), key=lambda number: lengths[number][::-1])
    scored: dict[int, ScoredPair] = {}
    for batch in batches_by_size(order, list(map(max, lengths)), ensemble.options.max_tokens):
        # Some encoders need the longest sentence first.
        batch.sort(key=lambda number: -lengths[number][0])
        sources, targets = zip(*(numbered[number] for number in batch))
        forced = _score(ensemble, sources, targets, align)
        for row, (number, source, target) in enumerate(zip(batch, sources, targets)):
            score = float(forced.log_probs[row, : len(target)].sum() / len(target)) / math.log(2)
            alignment = None
            if align:
                alignment = _alignment(ensemble, forced.attention, row, source, target)
            scored[number] = ScoredPair(score, alignment)
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
    special = ensemble.source.pad(), ensemble.source.eos()
    # The batch has padding before a source.
    of_pair = attention[row, : len(target), -len(source) :]
    return hard_alignment(of_pair, source, target, special)


def _check_lengths(ensemble: Ensemble, lengths: Sequence[tuple[int, int]]) -> None:
    """Check that no sentence is too long for the models."""
    longest_source, longest_target = map(max, zip((0, 0), *lengths))
    source = min(model.max_source_length for model in ensemble.search_models)
    target = min(model.max_target_length for model in ensemble.search_models)
    if longest_source > source or longest_target > target:
        raise UserError(
            f"There are pairs of up to {longest_source} x {longest_target} tokens, ends "
            f"of sentences included, but the model reads at most {source} x {target}."
        )
