"""The best tokens of each sentence, among which beam search finds what it would find among all.

Of the V scores of each hypothesis of a sentence, a beam search can choose the 2 * beam_size best of
all hypotheses, and its options change those of special symbols. Everything after the softmax is
therefore done with two tables: the first tokens of the vocabulary, including the special symbols,
for each hypothesis, and the best of all other tokens for each sentence.

torch.topk orders equal scores in a way that depends on all scores. A sentence is therefore searched
again in the whole vocabulary if equal scores are among its 2 * beam_size + 1 best.

Logits of half precision have so few bits that many sentences would be searched again. There, the
tables decide with which of several equal scores a sentence continues.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .decoding import NextTokens

# Tokens of a group: larger groups are slower to search, more groups are slower to sort.
GROUP_SIZE = 8


class Columns(NamedTuple):
    """The sizes of the tables.

    Attributes:
        first: number of columns of the first table, the first tokens of the vocabulary.
        best: number of columns of the second table, the best of the other tokens.
        group_size: the number of other tokens is a multiple of it.
    """

    first: int
    best: int
    group_size: int


def choose_columns(vocab_size: int, special: int, beam_size: int) -> Columns | None:
    """The sizes of the tables for a vocabulary, or None if it is too small for them.

    Args:
        vocab_size: V.
        special: number of tokens that must be in the first table.
        beam_size: hypotheses of each sentence.
    """
    # One more than beam search reads, to see whether the last one could be another.
    best = 2 * beam_size + 1
    others = vocab_size - special
    if others < best:
        return None
    group_size = min(GROUP_SIZE, others // best)
    return Columns(vocab_size - others // group_size * group_size, best, group_size)


def best_groups(
    log_probs: Tensor, totals: Tensor, columns: Columns, beam_size: int
) -> tuple[Tensor, Tensor]:
    """Groups of tokens that include the best ones of each sentence outside the first table.

    Args:
        log_probs: R x V, of the next tokens; R = B * beam_size.
        totals: R, log-probabilities of the hypotheses so far; minus infinity where none of their
            tokens may be chosen.
        columns: the sizes of the tables.
        beam_size: hypotheses of each sentence.
    Returns:
        Log-probabilities B x M of the tokens, and their indices B x M: V times the number of the
        hypothesis in its sentence, plus the token. NaN counts as the highest score.
    """
    vocab_size = log_probs.size(1)
    groups = log_probs[:, columns.first :].unflatten(1, (columns.group_size, -1))
    num_groups = groups.size(2)
    # The n best tokens are in the n groups with the highest maxima. A maximum is cheaper than topk.
    maxima = (groups.amax(dim=1) + totals.unsqueeze(1)).view(-1, beam_size * num_groups)
    chosen = maxima.topk(columns.best, sorted=False).indices.unsqueeze(1)
    beams = torch.div(chosen, num_groups, rounding_mode="trunc")
    members = torch.arange(columns.group_size, device=chosen.device).unsqueeze(1) * num_groups
    index = (chosen + beams * (vocab_size - num_groups) + columns.first + members).flatten(1)
    return log_probs.reshape(-1, beam_size * vocab_size).gather(1, index), index


class Continuations(NamedTuple):
    """The best continuations of each sentence, each B x 2 * beam_size, the best ones first.

    Attributes:
        scores: log-probabilities of the hypotheses with the token.
        tokens: token indices.
        beams: which hypothesis of the sentence is continued, from 0.
    """

    scores: Tensor
    tokens: Tensor
    beams: Tensor


def best_continuations(log_probs: Tensor, totals: Tensor | None, beam_size: int) -> Continuations:
    """The best continuations in the whole vocabulary.

    Args:
        log_probs: R x V, of the next tokens; R = B * beam_size.
        totals: R, log-probabilities of the hypotheses so far; None before the first token, where
            the hypotheses of a sentence are equal and the first one counts.
        beam_size: hypotheses of each sentence.
    """
    vocab_size = log_probs.size(1)
    sums = _sums(log_probs, totals, beam_size)
    # Always less than all: padding is never chosen.
    scores, index = sums.topk(min(2 * beam_size, sums.size(1) - 1))
    beams = torch.div(index, vocab_size, rounding_mode="trunc")
    return Continuations(scores, index.remainder(vocab_size), beams)


def _sums(log_probs: Tensor, totals: Tensor | None, beam_size: int) -> Tensor:
    """B x N scores of all continuations of each sentence."""
    by_sentence = log_probs.view(-1, beam_size, log_probs.size(1))
    if totals is None:
        return by_sentence[:, 0]
    return (by_sentence + totals.view(-1, beam_size, 1)).flatten(1)


class BestTokens:
    """The best tokens of B sentences in one step of a search.

    Args:
        following: the next tokens of their R hypotheses.
        columns: the sizes of the tables.
        totals, beam_size: as for ``best_continuations``.
        must_end: R x 1, true where only tokens of the first table are allowed; None if nowhere.
    Attributes:
        scores: the first table, R x K log-probabilities, which a search may change.
    """

    def __init__(
        self,
        following: NextTokens,
        columns: Columns,
        totals: Tensor | None,
        beam_size: int,
        must_end: Tensor | None = None,
    ):
        (_, vocab_size), (first, best, _) = following.shape, columns
        self._following, self._totals, self._beam_size = following, totals, beam_size
        self._must_end = must_end
        tables: list[Tensor] = []
        parts: list[tuple[Tensor, Tensor]] = []
        start = 0
        for log_probs in following.parts():
            if not tables:
                of_others = self._totals_of_others(log_probs)
            totals_of_rows = of_others[start : start + len(log_probs)]
            # The log-probabilities of these rows need not stay in memory.
            tables.append(log_probs[:, :first].clone())
            parts.append(best_groups(log_probs, totals_of_rows, columns, beam_size))
            start += len(log_probs)
        self.scores = torch.cat(tables)
        log_probs, index = (torch.cat(each) for each in zip(*parts))
        beams = torch.div(index, vocab_size, rounding_mode="trunc")
        sums = log_probs + of_others.view(-1, beam_size).gather(1, beams)
        # NaN is the highest score for topk, and the lowest one for beam search.
        self._is_wrong = sums.isnan().any(dim=1)
        scores, chosen = sums.topk(best)
        beams = beams.gather(1, chosen)
        tokens = index.gather(1, chosen) - beams * vocab_size
        self._others = Continuations(scores, tokens, beams)

    def _totals_of_others(self, like: Tensor) -> Tensor:
        """R, what to add to the log-probabilities outside the first table."""
        totals = self._totals
        if totals is None:
            totals = like.new_full((self._following.shape[0],), -math.inf)
            totals[:: self._beam_size] = 0.0
        if self._must_end is not None:
            totals = totals.masked_fill(self._must_end.squeeze(1), -math.inf)
        return totals

    def continuations(self) -> Continuations:
        """What ``best_continuations`` returns for the scores of all tokens.

        Only the order of scores of minus infinity may differ: no hypothesis that has one is ever
        finished.
        """
        first, best = self.scores.size(1), self._others.scores.size(1)
        sums = _sums(self.scores, self._totals, self._beam_size)
        of_first = torch.arange(sums.size(1), device=sums.device).expand_as(sums)
        beams = torch.div(of_first, first, rounding_mode="trunc")
        both = zip((sums, of_first - beams * first, beams), self._others)
        all_scores, tokens, beams = (torch.cat(each, dim=1) for each in both)
        scores, chosen = all_scores.topk(best)
        equal = scores[:, 1:] == scores[:, :-1]
        # The last score only tells whether the one before it is the only one of its kind.
        scores, chosen = scores[:, :-1], chosen[:, :-1]
        found = Continuations(scores, tokens.gather(1, chosen), beams.gather(1, chosen))
        search_again = self._is_wrong
        if self._following.exact:
            search_again = search_again | (equal & (scores > -math.inf)).any(dim=1)
        return self._search_again(found, search_again)

    def _search_again(self, found: Continuations, which: Tensor) -> Continuations:
        """Replace the continuations of some sentences with those in the whole vocabulary.

        Args:
            found: the continuations.
            which: B, true for these sentences.
        """
        sentences = which.nonzero().flatten()
        if not len(sentences):
            return found
        beams = torch.arange(self._beam_size, device=sentences.device)
        rows = (sentences.unsqueeze(1) * self._beam_size + beams).flatten()
        log_probs, first = self._following.log_probs_of(rows), self.scores.size(1)
        # Everything that the search has changed.
        log_probs.masked_fill_(log_probs.isnan(), -math.inf)
        log_probs[:, :first] = self.scores[rows]
        if self._must_end is not None:
            log_probs[:, first:].masked_fill_(self._must_end[rows], -math.inf)
        totals = None if self._totals is None else self._totals[rows]
        again = best_continuations(log_probs, totals, self._beam_size)
        for old, new in zip(found, again):
            old[sentences] = new
        return found
