"""Search with models from left to right, from right to left, or both.

No step can average models of both directions. Each direction finds translations by itself, and
then all models score all of them (Liu et al. 2016, "Agreement on Target-Bidirectional Neural
Machine Translation", section 3.2): the first tokens of a translation, where one direction knows
little, are the last ones of the other.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..common.errors import UserError
from .alignment import shifted
from .decoding import Model
from .options import SearchOptions
from .search import Finished, Symbols, beam_search, with_attention


@torch.no_grad()
def search(
    models: Sequence[Model],
    source: Tensor,
    symbols: Symbols,
    options: SearchOptions,
    *,
    prefix: Tensor | None = None,
    shortlist: Tensor | None = None,
    need_weights: bool = False,
    nbest: int | None = None,
) -> list[list[Finished]]:
    """Search for the best translations of a batch.

    With models of both directions, the score of a token is the mean of its log-probabilities.

    Args:
        models, source, symbols, options, prefix, shortlist, need_weights, nbest: as for
            ``beam_search``; the models may have both directions.
    Returns:
        For each sentence the finished hypotheses, at most ``options.beam``, the best one first.
    Raises:
        UserError: as ``beam_search``; if there is a prefix, but a model from right to left; or if
            there are both directions and a temperature.
    """
    sides = [[model for model in models if model.right_to_left is side] for side in (False, True)]
    if prefix is not None and sides[True]:
        raise UserError(
            "Translations cannot start with a given prefix, since a model predicts their last "
            "token first (--right-to-left): omit --prefix-size, or use other models."
        )
    if not all(sides):
        return beam_search(
            models,
            source,
            symbols,
            options,
            prefix=prefix,
            shortlist=shortlist,
            need_weights=need_weights,
            nbest=nbest,
        )
    if options.temperature != 1:
        raise UserError(
            f"--temperature is {options.temperature:g}, but models of both directions score whole "
            "translations, without a temperature: omit it."
        )
    longest = min(model.max_target_length for model in models)
    found = [
        beam_search(side, source, symbols, options, shortlist=shortlist, max_length=longest)
        for side in sides
    ]
    different = [_different(each) for each in zip(*found)]
    return _scored(models, source, symbols, options, different, need_weights, nbest)


def _different(found: Sequence[Sequence[Finished]]) -> list[Finished]:
    """The hypotheses of one sentence in several lists, each once."""
    return list({tuple(one.tokens.tolist()): one for each in found for one in each}.values())


def _scored(
    models: Sequence[Model],
    source: Tensor,
    symbols: Symbols,
    options: SearchOptions,
    found: Sequence[Sequence[Finished]],
    need_weights: bool,
    nbest: int | None,
) -> list[list[Finished]]:
    """The best hypotheses with the scores of all models."""
    encoded = [model.encode(source) for model in models]
    pad, eos = symbols.pad(), symbols.eos()
    scored: list[list[Finished]] = [[] for _ in found]
    # One batch for the first hypothesis of each sentence, one for all second ones, and so on.
    for rank in range(max(map(len, found))):
        # A batch has all sentences: those with fewer hypotheses repeat one.
        batch = [hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in found]
        tokens = [hypothesis.tokens for hypothesis in batch]
        target, previous = pad_sequence(tokens, True, pad), shifted(tokens, eos, pad)
        each = [
            model.score(of_model, previous, target).log_probs
            for model, of_model in zip(models, encoded)
        ]
        log_probs = torch.stack(each).mean(dim=0) - options.unkpen * target.eq(symbols.unk())
        for sentence, hypothesis in enumerate(batch):
            if rank < len(found[sentence]):
                token_scores = log_probs[sentence, : len(hypothesis.tokens)]
                score = float(token_scores.sum())
                if not options.unnormalized:
                    score /= len(token_scores) ** options.lenpen
                scored[sentence].append(hypothesis._replace(score=score, token_scores=token_scores))
    size = options.beam if nbest is None else min(nbest, options.beam)
    best = [sorted(each, key=lambda one: one.score, reverse=True)[:size] for each in scored]
    return with_attention(models, encoded, best, symbols) if need_weights else best
