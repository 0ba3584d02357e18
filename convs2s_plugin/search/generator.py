"""fairseq's SequenceGenerator with shortlists, alignments and unknown words."""

import copy
import logging
import weakref

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.translation.alignment import attention_to_chosen_tokens
from convs2s.translation.best_tokens import BestTokens, choose_columns
from convs2s.translation.shortlist import Shortlist

from ..models.adapters import output_layer_of
from .decoding import FairseqModel
from .table import BatchEnsemble, TableSearch, need_best_tokens_only
from .unknown_words import UnknownWords
from .word_alignment import ALIGNMENTS

logger = logging.getLogger(__name__)


class ShortlistSizes:
    """Sizes of the shortlists of some batches.

    Args:
        vocab_size: V of the whole target vocabulary.
    """

    def __init__(self, vocab_size: int):
        self._vocab_size = vocab_size
        self._num_batches = self._total_size = 0

    def add(self, size: int) -> None:
        """Count the shortlist of a batch."""
        self._num_batches += 1
        self._total_size += size

    def log_mean(self) -> None:
        """Log the mean size so far, if there is any."""
        if self._num_batches and not _is_log_closed():
            mean = self._total_size / self._num_batches
            logger.info(
                f"candidate vocabularies: {mean:,.0f} of {self._vocab_size:,} tokens on average "
                f"({mean / self._vocab_size:.1%}), {self._num_batches:,} batches"
            )


def _is_log_closed() -> bool:
    """Whether the log is a closed file, as it may be at the exit of the interpreter."""
    streams = (getattr(handler, "stream", None) for handler in logging.getLogger().handlers)
    return any(getattr(stream, "closed", False) for stream in streams)


class TranslationGenerator(SequenceGenerator):
    """fairseq's search, for all model families.

    Beam search is done in the best tokens of each hypothesis; see ``table``. What a batch needs is
    in a copy of the generator, so that threads can share the generator.

    Args:
        models, tgt_dict: as in fairseq.
        vocab_size: V, the size of the models' target vocabulary; the dictionary may have grown.
        shortlist: restricts the target vocabulary of each batch; None to search in all of it.
        alignment: "hard" or "soft" to add an alignment to each hypothesis; None for no alignment.
        unknown_words: replaces unknown words in hypotheses; None to keep them.
        options: as in fairseq.
    Attributes:
        need_weights: whether hypotheses have attention.
        aligns_tokens: whether it depends on the tokens, so that it is computed once, for the
            finished hypotheses.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        *,
        vocab_size: int,
        shortlist: Shortlist | None = None,
        alignment: str | None = None,
        unknown_words: UnknownWords | None = None,
        **options,
    ):
        if shortlist is not None:
            if options.get("lm_model") is not None:
                raise UserError(
                    "--lm-path scores the whole vocabulary, but --lexicon restricts it to the "
                    "candidates of a batch: leave one of them out."
                )
            for model in models:
                output_layer_of(model.decoder)
        super().__init__(models, tgt_dict, **options)
        self.translation_models = [FairseqModel(model) for model in models]
        self.whole_vocab_size = vocab_size
        self.shortlist = shortlist
        self.shortlist_sizes = ShortlistSizes(vocab_size)
        # fairseq's commands do not tell the task that they end: report when the generator is
        # deleted, which is at the exit of the interpreter at the latest.
        weakref.finalize(self, self.shortlist_sizes.log_mean)
        self.extract_alignment = ALIGNMENTS[alignment] if alignment else None
        self.unknown_words = unknown_words
        self.need_weights = alignment is not None or unknown_words is not None
        self.aligns_tokens = any(model.aligns_tokens for model in self.translation_models)
        self.in_best_tokens = need_best_tokens_only(options)

    def _generate(
        self,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Tensor]]]:
        src_tokens = sample["net_input"]["src_tokens"]
        if self.unknown_words is not None:
            masked = self.unknown_words.mask_source(src_tokens)
            sample = {**sample, "net_input": {**sample["net_input"], "src_tokens": masked}}
            if prefix_tokens is not None:
                prefix_tokens = self.unknown_words.mask_target(prefix_tokens)
        start = self.eos if bos_token is None else bos_token
        tokens = self._shortlist_of(sample, prefix_tokens, constraints, start)
        call = self._for_batch(tokens, self.need_weights and not self.aligns_tokens)
        finalized = call._search(sample, prefix_tokens, constraints, start, tokens)
        if not self.need_weights:
            return finalized
        if self.aligns_tokens:
            call._attend_to_chosen_tokens(finalized, start)
        for source, hypotheses in zip(src_tokens.cpu(), finalized):
            for hypothesis in hypotheses:
                self._use_attention(source, hypothesis)
        return finalized

    def _shortlist_of(self, sample, prefix_tokens, constraints, start: int) -> Tensor | None:
        """The target vocabulary of a batch, K sorted token indices; None for the whole one."""
        if self.shortlist is None:
            return None
        if constraints is not None:
            raise UserError(
                "--constraints may require any token, but --lexicon restricts the vocabulary to "
                "the candidates of a batch: leave one of them out."
            )
        src_tokens = sample["net_input"]["src_tokens"]
        required = [src_tokens.new_tensor([start])]
        if prefix_tokens is not None:
            required.append(prefix_tokens)
        tokens = self.shortlist(src_tokens, *required, min_size=2 * self.beam_size + 1)
        self.shortlist_sizes.add(len(tokens))
        return tokens

    def _for_batch(self, shortlist: Tensor | None, need_weights: bool) -> "TranslationGenerator":
        """A generator for one batch, in which everything that changes is its own."""
        call = copy.copy(self)
        call._modules = dict(self._modules)
        call.vocab_size = self.whole_vocab_size if shortlist is None else len(shortlist)
        search = columns = None
        if self.in_best_tokens:
            special = 1 + max(self.pad, self.unk, self.eos)
            columns = choose_columns(call.vocab_size, special, self.beam_size)
        if columns is not None:
            search = call.search = TableSearch(self.tgt_dict)
            call.vocab_size = columns.number
        call.columns = columns
        call.model = BatchEnsemble(
            self.translation_models, need_weights, shortlist, search, columns
        )
        return call

    def _search(self, sample, prefix_tokens, constraints, start: int, shortlist: Tensor | None):
        """fairseq's search, with tokens numbered by their position in the shortlist."""
        if shortlist is None:
            return super()._generate(sample, prefix_tokens, constraints, start)
        if prefix_tokens is not None:
            prefix_tokens = torch.searchsorted(shortlist, prefix_tokens.contiguous())
        start = int(torch.searchsorted(shortlist, start))
        finalized = super()._generate(sample, prefix_tokens, None, start)
        for hypotheses in finalized:
            for hypothesis in hypotheses:
                hypothesis["tokens"] = shortlist[hypothesis["tokens"]]
        return finalized

    def _prefix_tokens(self, step, lprobs, scores, tokens, prefix_tokens, beam_size: int):
        """Force the tokens of a prefix, which may be any of the vocabulary."""
        if self.columns is None:
            return super()._prefix_tokens(step, lprobs, scores, tokens, prefix_tokens, beam_size)
        whole = self.search.table.whole(torch.arange(len(lprobs), device=lprobs.device))
        whole, tokens, scores = super()._prefix_tokens(
            step, whole, scores, tokens, prefix_tokens, beam_size
        )
        self.search.table = BestTokens(whole.__getitem__, len(whole), self.columns)
        self.search.in_prefix = True
        return self.search.table.scores, tokens, scores

    def _attend_to_chosen_tokens(self, finalized, start: int) -> None:
        """Set the attention S x T of each hypothesis to that of its tokens."""
        attention = attention_to_chosen_tokens(
            self.translation_models,
            self.model.encoded,
            [[hypothesis["tokens"] for hypothesis in hypotheses] for hypotheses in finalized],
            start,
            self.pad,
        )
        for hypotheses, weights in zip(finalized, attention):
            for hypothesis, of_tokens in zip(hypotheses, weights):
                if of_tokens is not None:
                    hypothesis["attention"] = of_tokens.t()

    def _use_attention(self, source: Tensor, hypothesis: dict[str, Tensor]) -> None:
        """Add the alignment to a hypothesis, and replace its unknown words.

        Args:
            source: S source token indices, with padding.
            hypothesis: fairseq's, with ``attention`` S x T; changed in place.
        """
        attention = hypothesis["attention"].cpu()
        if not attention.numel():
            raise UserError(
                "--print-alignment and --replace-unk need attention weights, but the model "
                "returns none."
            )
        tokens = hypothesis["tokens"].cpu()
        if self.extract_alignment is not None:
            hypothesis["alignment"] = self.extract_alignment(
                attention.t(), source, tokens, self.pad, self.eos
            )
        if self.unknown_words is not None:
            replaced = self.unknown_words.replace(tokens, source, attention)
            hypothesis["tokens"] = replaced.to(hypothesis["tokens"].device)
