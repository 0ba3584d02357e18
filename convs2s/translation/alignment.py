"""Alignments of translations with their sources, from attention."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .decoding import Model


def hard_alignment(
    attention: Tensor, source: Tensor, target: Tensor, pad: int, eos: int
) -> list[tuple[int, int]]:
    """The source token with the most attention for each target token.

    Args:
        attention: T x S weights.
        source: S source tokens.
        target: T target tokens.
        pad, eos: tokens that are not aligned and do not count: padding and end of the sentence.
    Returns:
        Pairs of source and target token, each counted from 0 without these two.
    """
    targets, sources = _places_without(target, pad, eos), _places_without(source, pad, eos)
    best = _most_attended(attention, targets, sources)
    return [(place, number) for number, place in enumerate(best)]


def aligned_sources(
    tokens: Tensor, source: Tensor, attention: Tensor, unknown: int, pad: int, eos: int
) -> dict[int, int]:
    """The source token with most attention for each unknown target token (ConvS2S, section 4.3).

    Args:
        tokens: T target tokens.
        source: S source tokens.
        attention: T x S weights.
        unknown: the unknown word of the target vocabulary.
        pad, eos: source tokens that do not count.
    Returns:
        Position in ``tokens`` -> position in ``source``.
    """
    targets = tokens.eq(unknown).nonzero().flatten().tolist()
    sources = _places_without(source, pad, eos)
    best = _most_attended(attention, targets, sources)
    return {target: sources[number] for target, number in zip(targets, best)}


def _places_without(tokens: Tensor, *special: int) -> list[int]:
    return [place for place, token in enumerate(tokens.tolist()) if token not in special]


def _most_attended(attention: Tensor, targets: list[int], sources: list[int]) -> list[int]:
    """The place in ``sources`` of the best source of each target; none without sources."""
    if not sources or not targets:
        return []
    best: list[int] = attention[targets][:, sources].argmax(dim=1).tolist()
    return best


def attention_to_chosen_tokens(
    models: Sequence[Model],
    encoded: Sequence[Any],
    translations: Sequence[Sequence[Tensor]],
    start: int,
    pad: int,
) -> list[list[Tensor | None]]:
    """The attention of finished translations, the mean over all models.

    The alignment of pervasive attention (equation 7) depends on the token at a position. During a
    search it is only known for the most probable token. Once the tokens are chosen, one more
    forward pass computes theirs.

    Args:
        models: an ensemble.
        encoded: what the ``encode`` of each model returned for B sentences.
        translations: tokens of the translations of each sentence, the best ones first.
        start: the token before the first.
        pad: index of padding.
    Returns:
        T x S for each translation, or None if no model has attention.
    """
    found: list[list[Tensor | None]] = [[] for _ in translations]
    # One batch for all best translations, one for all second-best ones, and so on.
    for of_rank in zip_longest(*translations):
        sentences = [i for i, tokens in enumerate(of_rank) if tokens is not None]
        tokens = [of_rank[i] for i in sentences]
        target = pad_sequence(tokens, batch_first=True, padding_value=pad)
        previous = shifted(tokens, start, pad)
        rows = torch.tensor(sentences, device=target.device)
        each = [
            model.attend(of_model, rows, previous, target)
            for model, of_model in zip(models, encoded)
        ]
        weights = [attention for attention in each if attention is not None]
        mean = torch.stack(weights).mean(dim=0) if weights else None
        for row, (sentence, length) in enumerate(zip(sentences, map(len, tokens))):
            found[sentence].append(None if mean is None else mean[row, :length])
    return found


def shifted(translations: Sequence[Tensor], start: int, pad: int) -> Tensor:
    """The token before each token of R translations, R x T, padded at the end."""
    previous = [tokens.roll(1) for tokens in translations]
    for tokens in previous:
        tokens[0] = start
    return pad_sequence(previous, batch_first=True, padding_value=pad)
