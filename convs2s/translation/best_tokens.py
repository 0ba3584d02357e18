"""The best tokens of each hypothesis, among which beam search finds what it would find among all.

Of the V scores of a hypothesis, a beam search can choose the 2 * beam_size best, and its options
change those of special symbols. Everything after the softmax is therefore done with a table of K
columns: the first tokens of the vocabulary, including the special symbols, and the best of the
other tokens.

torch.topk orders equal scores in a way that depends on all scores. A sentence is therefore searched
again in the whole vocabulary if equal scores are among its 2 * beam_size + 1 best.

Logits of half precision have so few bits that many sentences would be searched again. There, the
table decides with which of several equal scores a sentence continues.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .decoding import NextTokens

# Tokens of a group: larger groups are slower to search, more groups are slower to sort.
GROUP_SIZE = 8


class Columns(NamedTuple):
    """The columns of a table of best tokens.

    Attributes:
        first: the first columns are the first tokens of the vocabulary.
        best: number of columns for the best of the other tokens.
        group_size: the number of other tokens is a multiple of it.
    """

    first: int
    best: int
    group_size: int


def choose_columns(vocab_size: int, special: int, beam_size: int) -> Columns | None:
    """The columns of the table for a vocabulary, or None if it is too small for a table.

    Args:
        vocab_size: V.
        special: number of tokens that must be among the first columns.
        beam_size: hypotheses of each sentence.
    """
    # One more than beam search reads, to see whether the last one could be another.
    best = 2 * beam_size + 1
    others = vocab_size - special
    if others < best:
        return None
    group_size = min(GROUP_SIZE, others // best)
    return Columns(vocab_size - others // group_size * group_size, best, group_size)


def select(log_probs: Tensor, columns: Columns) -> tuple[Tensor, Tensor]:
    """Select the best tokens of each row.

    Args:
        log_probs: R x V scores.
        columns: the columns of the table.
    Returns:
        The table R x K, and the token indices R x ``columns.best`` of its last columns, in
        descending order of their scores. NaN counts as the highest score.
    """
    groups = log_probs[:, columns.first :].unflatten(1, (columns.group_size, -1))
    # The n best tokens are in the n groups with the highest maxima. A maximum is cheaper than topk.
    best_groups = groups.amax(dim=1).topk(columns.best, sorted=False).indices
    members = groups.gather(2, best_groups.unsqueeze(1).expand(-1, columns.group_size, -1))
    scores, index = members.flatten(1).topk(columns.best)
    member = torch.div(index, columns.best, rounding_mode="trunc")
    group = best_groups.gather(1, index.remainder(columns.best))
    tokens = columns.first + member * groups.size(2) + group
    return torch.cat([log_probs[:, : columns.first], scores], dim=1), tokens


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
    """The best tokens of R hypotheses in one step of a search.

    Args:
        following: their next tokens.
        columns: the columns of the table.
    Attributes:
        scores: the table, R x K. A search may change the scores of the first columns, and forbid
            the tokens of all other columns at once.
    """

    def __init__(self, following: NextTokens, columns: Columns):
        num_rows, _ = following.shape
        parts = [
            select(following.log_probs_of(slice(start, start + following.rows_at_once)), columns)
            for start in range(0, num_rows, following.rows_at_once)
        ]
        tables, tokens = zip(*parts)
        self.scores, self._tokens = torch.cat(tables), torch.cat(tokens)
        # NaN is the highest score for topk, and the lowest one for beam search. These rows are
        # searched again; until then, another number is in its place, but not minus infinity,
        # which marks forbidden tokens.
        best = self.scores[:, columns.first :]
        is_nan = best.isnan()
        best.masked_fill_(is_nan, 0.0)
        self._is_wrong = is_nan.any(dim=1)
        self._following, self._columns = following, columns

    def continuations(self, totals: Tensor | None, beam_size: int) -> Continuations:
        """What ``best_continuations`` returns for the scores of all tokens.

        Only the order of scores of minus infinity may differ: no hypothesis that has one is ever
        finished.
        """
        (_, num_columns), (first, best, _) = self.scores.shape, self._columns
        scores, index = _sums(self.scores, totals, beam_size).topk(best)
        equal = scores[:, 1:] == scores[:, :-1]
        # The last score only tells whether the one before it is the only one of its kind.
        scores, index = scores[:, :-1], index[:, :-1]
        beams = torch.div(index, num_columns, rounding_mode="trunc")
        column = index.remainder(num_columns)
        others = self._tokens.view(len(scores), -1)
        others = others.gather(1, beams * best + (column - first).clamp(min=0))
        found = Continuations(scores, torch.where(column < first, column, others), beams)
        search_again = self._is_wrong.view(-1, beam_size).any(dim=1)
        if self._following.exact:
            search_again |= (equal & (scores > -math.inf)).any(dim=1)
        return self._search_again(found, search_again, totals, beam_size)

    def _search_again(
        self, found: Continuations, which: Tensor, totals: Tensor | None, beam_size: int
    ) -> Continuations:
        """Replace the continuations of some sentences with those in the whole vocabulary.

        Args:
            found: the continuations.
            which: B, true for these sentences.
            totals, beam_size: as for ``continuations``.
        """
        sentences = which.nonzero().flatten()
        if not len(sentences):
            return found
        beams = torch.arange(beam_size, device=sentences.device)
        rows = (sentences.unsqueeze(1) * beam_size + beams).flatten()
        log_probs, table = self._following.log_probs_of(rows), self.scores[rows]
        first = self._columns.first
        # Everything that the search has changed in the table.
        log_probs.masked_fill_(log_probs.isnan(), -math.inf)
        log_probs[:, :first] = table[:, :first]
        is_forbidden = table[:, first] == -math.inf
        log_probs[:, first:].masked_fill_(is_forbidden.unsqueeze(1), -math.inf)
        again = best_continuations(log_probs, None if totals is None else totals[rows], beam_size)
        for old, new in zip(found, again):
            old[sentences] = new
        return found
