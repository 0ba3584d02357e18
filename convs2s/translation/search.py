"""Beam search, with one model or the mean of several; beam size 1 is greedy search.

For the same logits, hypotheses and scores equal those of fairseq's search bit by bit: operations on
scores are in the same order. Only what depends on the other sentences of a batch is different: each
sentence has a largest length of its own. Everything that a search remembers belongs to its call.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..common.errors import UserError
from ..nn.state import BeamOrder
from .alignment import attention_to_chosen_tokens
from .best_tokens import BestTokens, Continuations, best_continuations, choose_columns
from .decoding import Decoding, Model, NextTokens, next_tokens, rows_at_once
from .options import SearchOptions

# Fewer scores are searched faster without a table of the best tokens.
MIN_SCORES = 2**14


class Symbols(Protocol):
    """The tokens of a language, by number; its special symbols come first."""

    nspecial: int
    count: list[int]

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> str: ...
    def __contains__(self, word: object) -> bool: ...
    def index(self, word: str) -> int: ...
    def bos(self) -> int: ...
    def pad(self) -> int: ...
    def eos(self) -> int: ...
    def unk(self) -> int: ...


class Finished(NamedTuple):
    """A hypothesis that is finished.

    Attributes:
        tokens: T target tokens, the end of the sentence included.
        score: log-probability with the length penalty, in nats.
        token_scores: T log-probabilities.
        attention: T x S; None if not asked for, or if no model has attention.
        is_cut_off: whether the search ended at its largest length.
    """

    tokens: Tensor
    score: float
    token_scores: Tensor
    attention: Tensor | None
    is_cut_off: bool

    def turned(self) -> "Finished":
        """The same from right to left; its end stays where it is."""
        order = torch.arange(len(self.tokens), device=self.tokens.device)
        order[:-1] = order[:-1].flip(0)
        attention = None if self.attention is None else self.attention[order]
        return self._replace(
            tokens=self.tokens[order], token_scores=self.token_scores[order], attention=attention
        )


@torch.no_grad()
def beam_search(
    models: Sequence[Model],
    source: Tensor,
    symbols: Symbols,
    options: SearchOptions,
    *,
    prefix: Tensor | None = None,
    shortlist: Tensor | None = None,
    need_weights: bool = False,
    nbest: int | None = None,
    max_length: int | None = None,
) -> list[list[Finished]]:
    """Search for the best translations of a batch.

    Args:
        models: an ensemble, at least one model, in evaluation mode. All have one direction; what
            models from right to left find is turned around.
        source: B x S source tokens.
        symbols: the target vocabulary.
        options: how to search.
        prefix: B x P tokens that translations start with, padded at the end; None for none. Models
            from right to left take none.
        shortlist: K sorted token indices to which the target vocabulary is restricted. The special
            symbols and the tokens of the prefix must be among them. None for all.
        need_weights: whether hypotheses have attention (False).
        nbest: the number of hypotheses of each sentence that are wanted; None for all.
        max_length: the largest number of tokens, the end of the sentence included; None for that of
            the models.
    Returns:
        For each sentence the finished hypotheses, at most ``options.beam``, the best one first.
    Raises:
        UserError: if no translation can have the smallest length, or if what a model computes is
            not a number.
    """
    encoded = [model.encode(source) for model in models]
    aligns_tokens = need_weights and any(model.aligns_tokens for model in models)
    # Attention that depends on the tokens is computed once, for the finished hypotheses.
    in_steps = need_weights and not aligns_tokens
    decodings = [
        model.start(of_model, in_steps, shortlist) for model, of_model in zip(models, encoded)
    ]
    longest = max_length or min(model.max_target_length for model in models)
    lengths = source.ne(symbols.pad()).sum(dim=1).tolist()
    limits = largest_lengths(options, lengths, longest)
    if prefix is not None and shortlist is not None:
        prefix = torch.searchsorted(shortlist, prefix.contiguous())
    vocab_size = len(symbols if shortlist is None else shortlist)
    finished = _Search(decodings, source, symbols, vocab_size, limits, options, prefix).run()
    found = [sorted(each, key=lambda one: one.score, reverse=True)[:nbest] for each in finished]
    if shortlist is not None:
        found = [[one._replace(tokens=shortlist[one.tokens]) for one in each] for each in found]
    if models[0].right_to_left:
        found = [[one.turned() for one in each] for each in found]
    return with_attention(models, encoded, found, symbols) if aligns_tokens else found


def with_attention(
    models: Sequence[Model],
    encoded: Sequence[Any],
    found: Sequence[Sequence[Finished]],
    symbols: Symbols,
) -> list[list[Finished]]:
    """Finished hypotheses with the attention of one more forward pass.

    Args:
        models, symbols: as for ``beam_search``.
        encoded: what the ``encode`` of each model returned.
        found: the hypotheses of each sentence.
    """
    tokens = [[one.tokens for one in each] for each in found]
    attention = attention_to_chosen_tokens(models, encoded, tokens, symbols.eos(), symbols.pad())
    return [
        [one._replace(attention=weights) for one, weights in zip(each, of_each)]
        for each, of_each in zip(found, attention)
    ]


def largest_lengths(
    options: SearchOptions, source_lengths: Sequence[int], max_target_length: int
) -> list[int]:
    """The largest number of tokens of each translation, without the end of the sentence.

    Args:
        options: how to search.
        source_lengths: the number of tokens of each sentence, its end included.
        max_target_length: limit of the models, the end of the sentence included.
    Raises:
        UserError: if no translation can have the smallest length.
    """
    longest = max_target_length - 1
    if not options.max_len_a:
        longest = min(longest, options.max_len_b)
    if options.min_len > longest:
        raise UserError(
            f"--min-len is {options.min_len}, but translations have at most {longest} tokens here, "
            "as --max-len-b and the model allow: give a smaller --min-len."
        )
    of_options = (options.max_len_a * length + options.max_len_b for length in source_lengths)
    return [max(options.min_len, int(min(number, longest))) for number in of_options]


class _Search:
    """The search in one batch.

    Row i is the hypothesis i % beam_size of an unfinished sentence. Rows that have ended stay
    until their sentence is finished, but no longer count.

    Args:
        decodings: the models, which have one hypothesis for each of B sentences.
        source: B x S.
        symbols, options, prefix: as for ``beam_search``.
        vocab_size: V, or the number of tokens in the shortlist.
        limits: largest number of tokens of each sentence, without its end.
    """

    def __init__(
        self,
        decodings: Sequence[Decoding],
        source: Tensor,
        symbols: Symbols,
        vocab_size: int,
        limits: list[int],
        options: SearchOptions,
        prefix: Tensor | None,
    ):
        self.decodings, self.options, self.prefix = decodings, options, prefix
        self.pad, self.eos, self.unk = symbols.pad(), symbols.eos(), symbols.unk()
        self.limits, self.smallest_limit = limits, min(limits)
        # Padding is never chosen.
        self.beam_size = min(options.beam, len(symbols) - 1)
        self.at_once = rows_at_once(vocab_size, self.beam_size)
        self.device = source.device
        # The number of each unfinished sentence, and the finished hypotheses of all sentences.
        self.sentences = list(range(len(source)))
        self.finished: list[list[Finished]] = [[] for _ in self.sentences]
        # The current rows: their tokens, R x (t + 1) with the end of a sentence as the first one;
        # their log-probabilities after each token, R x t; and the row in which each step was made.
        rows = len(source) * self.beam_size
        self.tokens = source.new_full((rows, 1), self.eos)
        self.totals = torch.zeros(rows, 0, device=self.device)
        self.writers = self.tokens[:, :0]
        # Attention of each step.
        self.attention: list[Tensor] = []
        self.has_ended = torch.zeros(
            len(source), self.beam_size, dtype=torch.bool, device=self.device
        )

    def run(self) -> list[list[Finished]]:
        """Search until all sentences are finished."""
        order = None
        if self.beam_size > 1:
            sentences = torch.arange(len(self.sentences), device=self.device)
            order = sentences.repeat_interleave(self.beam_size)
            beam_order = BeamOrder.known(sentences, False, 1, self.beam_size)
        for step in range(max(self.limits) + 1):
            if order is not None:
                for decoding in self.decodings:
                    decoding.reorder_(order, beam_order)
            following = next_tokens(
                self.decodings,
                self.tokens,
                self.options.temperature,
                None if self._is_forced(step) else self.at_once,
            )
            found = self._continuations(step, following)
            ends = found.tokens.eq(self.eos) & found.scores.ne(-math.inf)
            if self.beam_size > 1:
                # Otherwise, a sentence is finished when its only row has ended.
                ends[:, : self.beam_size] &= ~self.has_ended
            kept = self._finish(step, found, ends[:, : self.beam_size])
            if not self.sentences:
                return self.finished
            order = self._continue(found, ends, kept)
            if order is not None:
                beam_order = self._beam_order(kept)
        raise UserError(
            "The search found no end of some translations: what the model computes is infinite or "
            "not a number. Use another checkpoint, or compute without half precision."
        )

    def _continuations(self, step: int, following: NextTokens) -> Continuations:
        """The best continuations, after the rules for lengths and prefixes."""
        if following.attention is not None:
            self.attention.append(following.attention.float())
        totals = self.totals[:, -1] if step else None
        special = 1 + max(self.pad, self.eos, self.unk)
        columns = None
        # A table decides between equal scores of half precision, with many sentences or one.
        if not following.exact or following.shape.numel() >= MIN_SCORES:
            columns = choose_columns(following.shape[1], special, self.beam_size)
        is_forced = self._is_forced(step)
        must_end = self._must_end(step)
        if columns is None or is_forced:
            log_probs = following.log_probs_of(slice(None))
            self._forbid(step, log_probs, must_end, is_forced)
            if is_forced:
                log_probs = self._force(step, log_probs, must_end)
                totals = self.totals[:, -1] if step else None
            return best_continuations(log_probs, totals, self.beam_size)
        table = BestTokens(following, columns, totals, self.beam_size, must_end)
        self._forbid(step, table.scores, must_end, is_forced)
        return table.continuations()

    def _is_forced(self, step: int) -> bool:
        """Whether some tokens of a step are those of a prefix."""
        return self.prefix is not None and step < self.prefix.size(1)

    def _must_end(self, step: int) -> Tensor | None:
        """R x 1, true for the hypotheses of sentences at their largest length; None if none is."""
        if step < self.smallest_limit:
            return None
        at_limit = [self._is_at_limit(i, step) for i in range(len(self.sentences))]
        if not any(at_limit):
            return None
        return self._to_device(np.array(at_limit).repeat(self.beam_size)).unsqueeze(1)

    def _forbid(
        self, step: int, log_probs: Tensor, must_end: Tensor | None, is_forced: bool
    ) -> None:
        """Forbid padding, and what would be too long or too short; punish unknown words.

        Args:
            step: number of the step, from 0.
            log_probs: R x V, or of the first tokens of the vocabulary.
            must_end: R x 1, true for the rows that must end; None if no row must.
            is_forced: whether some tokens are those of a prefix.
        """
        log_probs.masked_fill_(log_probs.isnan(), -math.inf)
        log_probs[:, self.pad] = -math.inf
        if self.options.unkpen:
            log_probs[:, self.unk] -= self.options.unkpen
        if must_end is not None:
            log_probs[:, : self.eos].masked_fill_(must_end, -math.inf)
            log_probs[:, self.eos + 1 :].masked_fill_(must_end, -math.inf)
        if step < self.options.min_len and not is_forced:
            log_probs[:, self.eos] = -math.inf

    def _is_at_limit(self, place: int, step: int) -> bool:
        """Whether the unfinished sentence at a place has as many tokens as it may have."""
        return step >= self.limits[self.sentences[place]]

    def _force(self, step: int, log_probs: Tensor, must_end: Tensor | None) -> Tensor:
        """Forbid everything except the next token of the prefix, where there is one."""
        assert self.prefix is not None
        of_sentence = self.prefix[:, step]
        token = of_sentence.repeat_interleave(self.beam_size).unsqueeze(1)
        if must_end is not None:
            token = token.masked_fill(must_end, self.pad)
        forced = torch.full_like(log_probs, -math.inf)
        forced.scatter_(1, token, log_probs.gather(1, token))
        log_probs = torch.where(token != self.pad, forced, log_probs)
        # A translation that ends within its prefix: all its hypotheses are the first one.
        first = torch.arange(len(log_probs), device=self.device)
        first -= (first % self.beam_size) * token.squeeze(1).eq(self.eos)
        self.tokens, self.totals = self.tokens[first], self.totals[first]
        return log_probs[first]

    def _finish(self, step: int, found: Continuations, ends: Tensor) -> Tensor | None:
        """Finish hypotheses, and remove the sentences that have enough of them.

        Args:
            step: number of the step, from 0.
            found: the continuations.
            ends: B x beam_size, which of the best ones are finished.
        Returns:
            The positions of the sentences that remain; None if all do.
        """
        normalized = found.scores[:, : self.beam_size]
        if not self.options.unnormalized:
            normalized = normalized / (step + 1) ** self.options.lenpen
        # Read once: each read waits for a GPU.
        scores = torch.where(ends, normalized, math.nan).double().cpu().numpy()
        finished = (~np.isnan(scores)).nonzero()
        if not len(finished[0]):
            return None
        places, ranks = self._to_device(np.stack(finished))
        rows = places * self.beam_size + found.beams[places, ranks]
        totals = found.scores[places, ranks].unsqueeze(1)
        steps = torch.cat([self.totals[rows], totals], dim=1)
        steps[:, 1:] = steps[:, 1:] - steps[:, :-1]
        tokens = torch.nn.functional.pad(self.tokens[rows, 1:], (0, 1), value=self.eos)
        attention = self._attention_of(rows)
        ended = finished[0].tolist()
        for i, (place, score) in enumerate(zip(ended, scores[finished].tolist())):
            hypotheses = self.finished[self.sentences[place]]
            if len(hypotheses) < self.beam_size:
                weights = None if attention is None else attention[i]
                is_cut_off = self._is_at_limit(place, step)
                hypotheses.append(Finished(tokens[i], score, steps[i], weights, is_cut_off))
        done = {
            place
            for place in ended
            if self._is_at_limit(place, step)
            or len(self.finished[self.sentences[place]]) == self.beam_size
        }
        if not done:
            return None
        kept = [place for place in range(len(self.sentences)) if place not in done]
        self.sentences = [self.sentences[place] for place in kept]
        return self._to_device(np.array(kept, dtype=np.int64))

    def _to_device(self, array: np.ndarray[Any, Any]) -> Tensor:
        """An array as a tensor on the device, which is not waited for."""
        return torch.from_numpy(array).to(self.device, non_blocking=True)

    def _attention_of(self, rows: Tensor) -> Tensor | None:
        """The attention N x T x S of N rows in all steps so far."""
        if not self.attention:
            return None
        writers = torch.cat([self.writers[rows], rows.unsqueeze(1)], dim=1)
        each = [weights[row] for weights, row in zip(self.attention, writers.unbind(1))]
        return torch.stack(each, dim=1)

    def _beam_order(self, kept: Tensor | None) -> BeamOrder:
        """The order of the sentences that remain; ``kept`` is what ``_finish`` returned."""
        if kept is not None:
            return BeamOrder.known(kept, True, self.beam_size, self.beam_size)
        sentences = torch.arange(len(self.sentences), device=self.device)
        return BeamOrder.known(sentences, False, self.beam_size, self.beam_size)

    def _continue(self, found: Continuations, ends: Tensor, kept: Tensor | None) -> Tensor | None:
        """Take the best hypotheses that have not ended.

        Args:
            found, ends: the continuations, B x N, and which of them are finished.
            kept: the positions of the sentences that remain; None for all.
        Returns:
            For each new row, the old row that it continues; None if each continues its own.
        """
        if self.beam_size == 1:
            return self._continue_best(found, kept)
        starts = torch.arange(len(ends), device=self.device).unsqueeze(1) * self.beam_size
        rows = starts + found.beams
        number = ends.size(1)
        ends[:, : self.beam_size] |= self.has_ended
        # Those that have ended come last.
        priority = ends * number + torch.arange(number, device=self.device)
        scores, tokens = found.scores, found.tokens
        if kept is not None:
            rows, scores, tokens, priority = (
                each[kept] for each in (rows, scores, tokens, priority)
            )
            if self.prefix is not None:
                self.prefix = self.prefix[kept]
        priority, chosen = priority.topk(self.beam_size, dim=1, largest=False)
        self.has_ended = priority >= number
        order, scores, tokens = (each.gather(1, chosen).view(-1) for each in (rows, scores, tokens))
        self._append(order, scores, tokens)
        return order

    def _continue_best(self, found: Continuations, kept: Tensor | None) -> Tensor | None:
        """As ``_continue``, for greedy search: a sentence that remains has its best token."""
        scores, tokens = found.scores[:, 0], found.tokens[:, 0]
        if kept is not None:
            scores, tokens = scores[kept], tokens[kept]
            if self.prefix is not None:
                self.prefix = self.prefix[kept]
        self._append(kept, scores, tokens)
        return kept

    def _append(self, order: Tensor | None, scores: Tensor, tokens: Tensor) -> None:
        """Let new rows continue old ones.

        Args:
            order: the old row of each new one; None if all stay in place.
            scores, tokens: log-probability and last token of each new row.
        """
        if self.attention:
            now = torch.arange(len(self.tokens), device=self.device).unsqueeze(1)
            self.writers = torch.cat([self.writers, now], dim=1)
        if order is not None:
            self.writers = self.writers[order]
            self.tokens, self.totals = self.tokens[order], self.totals[order]
        self.tokens = torch.cat([self.tokens, tokens.unsqueeze(1)], dim=1)
        self.totals = torch.cat([self.totals, scores.unsqueeze(1)], dim=1)
