"""Beam search in the best tokens of each hypothesis, with the results of fairseq's beam search.

Of the V scores of a hypothesis, fairseq's beam search can choose the 2 * beam_size best, and its
options change those of special symbols. So everything after the softmax is done with a table of K
columns: the first tokens of the vocabulary, among them the special symbols, and the best of the
other tokens.

torch.topk orders equal scores in a way that depends on all scores. So a sentence is searched again
in the whole vocabulary if equal scores are among its 2 * beam_size + 1 best. Scores of minus
infinity do not count: no hypothesis that has one is ever finished. They count with a prefix: where
it ends the sentence, fairseq makes such hypotheses copies of the first one.

Logits of half precision have so few bits that many sentences would be searched again. So which of
equal scores a sentence continues with is left to the table.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel
from torch import Tensor

# Largest number of scores that are normalized at once: their logits fit into a cache of 2 MiB.
MAX_SCORES = 2**19
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

    @property
    def number(self) -> int:
        """K."""
        return self.first + self.best


def choose_columns(vocab_size: int, special: int, best: int) -> Columns | None:
    """The columns of the table for a vocabulary, or None if it is too small for a table.

    Args:
        vocab_size: V.
        special: number of tokens that must be among the first columns.
        best: number of columns for the best of the other tokens.
    """
    others = vocab_size - special
    if others < best:
        return None
    group_size = min(GROUP_SIZE, others // best)
    return Columns(vocab_size - others // group_size * group_size, best, group_size)


def select(lprobs: Tensor, columns: Columns) -> tuple[Tensor, Tensor]:
    """Select the best tokens of each row.

    Args:
        lprobs: R x V scores.
        columns: the columns of the table.
    Returns:
        The table R x K, and the token indices R x ``columns.best`` of its last columns, in
        descending order of their scores.
    """
    groups = lprobs[:, columns.first :].unflatten(1, (columns.group_size, -1))
    # The n best tokens are in the n groups with the highest maxima. A maximum is cheaper than topk.
    best_groups = groups.amax(dim=1).topk(columns.best, sorted=False).indices
    members = groups.gather(2, best_groups.unsqueeze(1).expand(-1, columns.group_size, -1))
    scores, index = members.flatten(1).topk(columns.best)
    if scores.isnan().any():
        # topk takes NaN for the highest score, fairseq for the lowest.
        return select(lprobs.masked_fill(lprobs.isnan(), -math.inf), columns)
    member = torch.div(index, columns.best, rounding_mode="trunc")
    group = best_groups.gather(1, index.remainder(columns.best))
    tokens = columns.first + member * groups.size(2) + group
    return torch.cat([lprobs[:, : columns.first], scores], dim=1), tokens


def need_best_tokens_only(options: dict[str, Any]) -> bool:
    """Whether fairseq's SequenceGenerator with these options needs the best tokens only.

    Sampling, the diverse and constrained searches, --match-source-len, language models and
    --no-repeat-ngram-size need, or change, the scores of other tokens.
    """
    search = options.get("search_strategy")
    others = ("lm_model", "no_repeat_ngram_size", "tokens_to_suppress")
    return (search is None or type(search) is BeamSearch) and not any(map(options.get, others))


class BestTokensSearch(BeamSearch):
    """fairseq's beam search, for scores in a table of the best tokens.

    ``begin`` starts the search of a batch. In each step, ``table`` makes the table, fairseq changes
    the scores of special symbols in it, and ``step`` continues the hypotheses.
    """

    def __init__(self, tgt_dict: Dictionary):
        super().__init__(tgt_dict)
        self.columns: Columns | None = None
        self.has_prefix = False
        self._lprobs_of: Callable[[Any], Tensor]
        self._tokens: Tensor
        self._exact: bool

    def begin(self, vocab_size: int, special: int, beam_size: int, has_prefix: bool) -> int:
        """Choose the columns for a batch.

        Args:
            vocab_size: V of this batch.
            special: the special symbols are among as many first tokens.
            beam_size: hypotheses of each sentence.
            has_prefix: whether a prefix is forced.
        Returns:
            K, or V if the vocabulary is too small for a table.
        """
        # One more than beam search reads, to see whether the last one could be another.
        self.columns = choose_columns(vocab_size, special, 2 * beam_size + 1)
        self.has_prefix = has_prefix
        return vocab_size if self.columns is None else self.columns.number

    def table(
        self,
        lprobs_of: Callable[[Any], Tensor],
        num_rows: int,
        rows_at_once: int | None = None,
        exact: bool = True,
    ) -> Tensor:
        """Make the table R x K of a step.

        Args:
            lprobs_of: returns R' x V scores of some rows, given a slice or R' indices. For indices,
                it returns a new tensor.
            num_rows: R.
            rows_at_once: call ``lprobs_of`` for so many rows at a time (all).
            exact: whether to choose among equal scores as fairseq does (True).
        """
        assert self.columns is not None
        size = rows_at_once or num_rows
        parts = [
            select(lprobs_of(slice(start, start + size)), self.columns)
            for start in range(0, num_rows, size)
        ]
        tables, tokens = zip(*parts)
        self._lprobs_of, self._tokens, self._exact = lprobs_of, torch.cat(tokens), exact
        return torch.cat(tables)

    def whole(self, table: Tensor, rows: Tensor) -> Tensor:
        """The scores R' x V of some rows, changed as fairseq has changed the table.

        Args:
            table: R x K.
            rows: R' indices of rows.
        """
        assert self.columns is not None
        lprobs, table, first = self._lprobs_of(rows), table[rows], self.columns.first
        lprobs[lprobs != lprobs] = -math.inf
        lprobs[:, :first] = table[:, :first]
        # At the maximum length, fairseq forbids all tokens but the end of sentence.
        lprobs[table[:, first] == -math.inf, first:] = -math.inf
        return lprobs

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor,
        prev_output_tokens: Tensor | None = None,
        original_batch_idxs: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Take a step, as in fairseq.

        Args:
            step: number of the step, from 0.
            lprobs: B x beam_size x K, the table, or B x beam_size x V without a table.
            scores: B x beam_size x ``step``, of the hypotheses so far.
            prev_output_tokens, original_batch_idxs: not used.
        Returns:
            Scores, tokens and numbers of the continued hypotheses, each B x 2 * beam_size.
        """
        found = super().step(step, lprobs, scores)
        if self.columns is None:
            return found
        found_scores, column, beams = found
        first, best = self.columns.first, self.columns.best
        index = beams * best + (column - first).clamp(min=0)
        tokens = self._tokens.view(len(lprobs), -1).gather(1, index)
        tokens = torch.where(column < first, column, tokens)
        if self._exact and len(sentences := self._ambiguous(step, lprobs, scores)):
            _, beam_size, num_columns = lprobs.shape
            rows = sentences.unsqueeze(1) * beam_size + torch.arange(beam_size).to(sentences)
            whole = self.whole(lprobs.view(-1, num_columns), rows.flatten())
            found_scores[sentences], tokens[sentences], beams[sentences] = super().step(
                step, whole.view(len(sentences), beam_size, -1), scores[sentences]
            )
        # It holds the logits, whose memory the next step needs.
        del self._lprobs_of
        return found_scores, tokens, beams

    def _ambiguous(self, step: int, lprobs: Tensor, scores: Tensor) -> Tensor:
        """Indices of the sentences with equal scores among the best."""
        assert self.columns is not None
        sums = lprobs[:, :1] if step == 0 else lprobs + scores[:, :, step - 1 : step]
        best = sums.flatten(1).topk(self.columns.best).values
        equal = best[:, 1:] == best[:, :-1]
        if not self.has_prefix:
            equal &= best[:, 1:] > -math.inf
        return equal.any(dim=1).nonzero().flatten()


class BestTokensModel(EnsembleModel):
    """fairseq's ensemble of models, whose scores are a table of the best tokens.

    Args:
        models: as in fairseq.
        search: the search that reads the table.
        in_pieces: whether the scores of a hypothesis depend on its own logits only, so that they
            can be computed for some hypotheses at a time.
    """

    def __init__(
        self, models: list[FairseqEncoderDecoderModel], search: BestTokensSearch, in_pieces: bool
    ):
        super().__init__(models)
        self.search = search
        self.in_pieces = in_pieces

    def forward_decoder(
        self,
        tokens: Tensor,
        encoder_outs: list[Any],
        incremental_states: list[Any],
        temperature: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the table R x K of the next token, or all scores R x V without a table.

        Args:
            tokens, encoder_outs, incremental_states, temperature: as in fairseq.
        Returns:
            Scores, and attention R x S or None.
        """
        columns, num_rows = self.search.columns, len(tokens)
        one_model = self.models_size == 1 and self.has_encoder() and self.has_incremental_states()
        if columns is None or not one_model:
            lprobs, attn = super().forward_decoder(
                tokens, encoder_outs, incremental_states, temperature
            )
            if columns is not None:
                lprobs = self.search.table(lprobs.__getitem__, num_rows)
            return lprobs, attn
        model = self.single_model
        output, extra = model.decoder.forward(
            tokens, encoder_out=encoder_outs[0], incremental_state=incremental_states[0]
        )
        output = output[:, -1:]
        if temperature != 1:
            output = output.div_(temperature)

        def lprobs_of(rows: Any) -> Tensor:
            return model.get_normalized_probs((output[rows], extra), log_probs=True)[:, -1]

        rows_at_once = None
        # A GPU is fastest with all rows.
        if self.in_pieces and output.device.type == "cpu":
            rows_at_once = max(1, MAX_SCORES // output.size(-1))
        exact = output.dtype not in (torch.bfloat16, torch.float16)
        table = self.search.table(lprobs_of, num_rows, rows_at_once, exact)
        return table, _last_attention(extra)


def _last_attention(extra: Any) -> Tensor | None:
    """Attention R x S of the last position, in what a decoder returns beside the logits."""
    weights = extra["attn"] if isinstance(extra, dict) else extra
    if isinstance(weights, list):
        weights = weights[0]
    return None if weights is None else weights[:, -1]
