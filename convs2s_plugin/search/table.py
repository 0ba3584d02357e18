"""fairseq's beam search and ensemble for one batch, with the best tokens of each hypothesis.

fairseq's search goes on as ever: it changes the scores of special symbols, and asks its search
strategy for continuations. Its ensemble returns a table of the best tokens instead of all scores,
and the strategy continues the hypotheses in it; see ``convs2s.translation.best_tokens``.
"""

from collections.abc import Sequence
from typing import Any

from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel
from torch import Tensor

from convs2s.translation.best_tokens import BestTokens, Columns
from convs2s.translation.decoding import Decoding, next_tokens

from .decoding import FairseqModel


def need_best_tokens_only(options: dict[str, Any]) -> bool:
    """Whether fairseq's SequenceGenerator with these options needs the best tokens only.

    Sampling, the diverse and constrained searches, --match-source-len, language models and
    --no-repeat-ngram-size need, or change, the scores of other tokens.
    """
    search = options.get("search_strategy")
    others = ("lm_model", "no_repeat_ngram_size", "tokens_to_suppress")
    return (search is None or type(search) is BeamSearch) and not any(map(options.get, others))


class TableSearch(BeamSearch):
    """fairseq's beam search in a table of the best tokens.

    Attributes:
        table: the table of the present step, which the ensemble makes.
        in_prefix: whether the step forces tokens of a prefix.
    """

    table: BestTokens | None = None
    in_prefix = False

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
            lprobs: B x beam_size x K, the scores of the table.
            scores: B x beam_size x ``step``, of the hypotheses so far.
            prev_output_tokens, original_batch_idxs: not used.
        Returns:
            Scores, tokens and numbers of the continued hypotheses, each B x 2 * beam_size.
        """
        # The table holds the logits, whose memory the next step needs.
        table, self.table = self.table, None
        assert table is not None
        totals = scores[:, :, -1].flatten() if step else None
        # Where a prefix ends the sentence, fairseq makes impossible hypotheses copies of the first.
        return table.continuations(totals, lprobs.size(1), compare_impossible=self.in_prefix)


class BatchEnsemble(EnsembleModel):
    """fairseq's ensemble for one batch.

    Args:
        models: the models.
        need_weights: whether steps return attention.
        shortlist: K' token indices to which the vocabulary is restricted, or None.
        search: makes the continuations; None if the search needs all scores.
        columns: the columns of the table; None with ``search``.
    """

    def __init__(
        self,
        models: Sequence[FairseqModel],
        need_weights: bool,
        shortlist: Tensor | None,
        search: TableSearch | None,
        columns: Columns | None,
    ):
        super().__init__([model.model for model in models])
        self._each, self._need_weights, self._shortlist = models, need_weights, shortlist
        self._search, self._columns = search, columns
        self.encoded: list[Any] = []

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[Decoding]:
        """Encode the batch, and start to decode it."""
        self.encoded = [model.encode_input(net_input) for model in self._each]
        return [
            model.start(encoded, self._need_weights, self._shortlist)
            for model, encoded in zip(self._each, self.encoded)
        ]

    def forward_decoder(
        self,
        tokens: Tensor,
        encoder_outs: list[Decoding],
        incremental_states: list[Any],
        temperature: float = 1.0,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the table R x K of the next tokens, or all scores R x V, and attention R x S.

        Args:
            tokens, temperature: as in fairseq.
            encoder_outs: what ``forward_encoder`` returned.
            incremental_states: not used; the decodings have theirs.
        """
        following = next_tokens(encoder_outs, tokens, temperature)
        if self._search is None or self._columns is None:
            return following.log_probs_of(slice(None)), following.attention
        self._search.table = BestTokens(
            following.log_probs_of,
            len(tokens),
            self._columns,
            following.rows_at_once,
            following.exact,
        )
        self._search.in_prefix = False
        return self._search.table.scores, following.attention

    def reorder_encoder_out(
        self, encoder_outs: list[Decoding], new_order: Tensor
    ) -> list[Decoding]:
        """Let hypothesis i continue hypothesis ``new_order[i]``."""
        for decoding in encoder_outs:
            decoding.reorder_(new_order)
        return encoder_outs

    def reorder_incremental_state(self, incremental_states: list[Any], new_order: Tensor) -> None:
        """Do nothing: fairseq calls ``reorder_encoder_out`` as well."""
