"""fairseq's SequenceGenerator with candidate vocabularies, alignments and unknown words."""

import weakref

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.translation.candidates import Candidates
from convs2s.translation.unknown_words import UnknownWords

from .best_tokens import BestTokensModel, BestTokensSearch, need_best_tokens_only
from .candidate_model import CandidateModel
from .output_layer import has_linear_output
from .word_alignment import (
    ALIGNMENTS,
    aligns_tokens,
    attend_to_chosen_tokens,
    request_attention,
)


class TranslationGenerator(SequenceGenerator):
    """fairseq's search, for all model families.

    Beam search is done in the best tokens of each hypothesis; see ``best_tokens``.

    Args:
        models, tgt_dict: as in fairseq.
        vocab_size: V, the size of the models' target vocabulary; the dictionary may have grown.
        candidates: restrict the search of each batch to a candidate vocabulary; None to search in
            the whole vocabulary.
        alignment: "hard" or "soft" to add an alignment to each hypothesis; None for no alignment.
        unknown_words: replaces unknown words in hypotheses; None to keep them.
        options: as in fairseq.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        *,
        vocab_size: int,
        candidates: Candidates | None = None,
        alignment: str | None = None,
        unknown_words: UnknownWords | None = None,
        **options,
    ):
        whole_models = list(models)
        if candidates is not None:
            if options.get("lm_model") is not None:
                raise UserError(
                    "--lm-path scores the whole vocabulary, but --lexicon restricts it to the "
                    "candidates of a batch: leave one of them out."
                )
            models = [CandidateModel(model) for model in models]
            # fairseq's commands do not tell the task that they end: report when the generator is
            # deleted, which is at the exit of the interpreter at the latest.
            weakref.finalize(self, candidates.log_mean_size)
        if need_best_tokens_only(options):
            search = options["search_strategy"] = BestTokensSearch(tgt_dict)
            in_pieces = all(has_linear_output(model.decoder) for model in whole_models)
            models = BestTokensModel(models, search, in_pieces)
        super().__init__(models, tgt_dict, **options)
        self.whole_models = whole_models
        self.whole_vocab_size = vocab_size
        self.candidates = candidates
        self.extract_alignment = ALIGNMENTS[alignment] if alignment else None
        self.unknown_words = unknown_words
        # Attention that depends on the tokens is computed once, for the finished hypotheses.
        need_attn = alignment is not None or unknown_words is not None
        request_attention(whole_models, need_attn and not aligns_tokens(whole_models))

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
        search = self._search if self.candidates is None else self._search_candidates
        finalized = search(sample, prefix_tokens, constraints, bos_token)
        if self.extract_alignment is None and self.unknown_words is None:
            return finalized
        if aligns_tokens(self.whole_models):
            start = self.eos if bos_token is None else bos_token
            attend_to_chosen_tokens(
                self.whole_models, sample["net_input"], finalized, start, self.pad
            )
        for source, hypotheses in zip(src_tokens.cpu(), finalized):
            for hypothesis in hypotheses:
                self._use_attention(source, hypothesis)
        return finalized

    def _search(self, sample, prefix_tokens, constraints, bos_token, vocab_size=None):
        """fairseq's search in a vocabulary of ``vocab_size`` tokens (default: the models')."""
        self.vocab_size = self.whole_vocab_size if vocab_size is None else vocab_size
        if isinstance(self.search, BestTokensSearch):
            special = 1 + max(self.pad, self.unk, self.eos)
            self.vocab_size = self.search.begin(
                self.vocab_size, special, self.beam_size, prefix_tokens is not None
            )
        return super()._generate(sample, prefix_tokens, constraints, bos_token)

    def _prefix_tokens(self, step, lprobs, scores, tokens, prefix_tokens, beam_size: int):
        """Force the tokens of a prefix, which may be any of the vocabulary."""
        search = self.search
        has_table = isinstance(search, BestTokensSearch) and search.columns is not None
        if has_table:
            lprobs = search.whole(lprobs, torch.arange(len(lprobs), device=lprobs.device))
        lprobs, tokens, scores = super()._prefix_tokens(
            step, lprobs, scores, tokens, prefix_tokens, beam_size
        )
        if has_table:
            lprobs = search.table(lprobs.__getitem__, len(lprobs))
        return lprobs, tokens, scores

    def _search_candidates(self, sample, prefix_tokens, constraints, bos_token):
        """Search in the candidate vocabulary; number tokens as in the whole vocabulary again."""
        assert self.candidates is not None
        if constraints is not None:
            raise UserError(
                "--constraints may require any token, but --lexicon restricts the vocabulary to "
                "the candidates of a batch: leave one of them out."
            )
        src_tokens = sample["net_input"]["src_tokens"]
        start = self.eos if bos_token is None else bos_token
        required = [src_tokens.new_tensor([start])]
        if prefix_tokens is not None:
            required.append(prefix_tokens)
        candidates = self.candidates(src_tokens, *required, min_size=2 * self.beam_size + 1)
        for model in self.model.models:
            model.decoder.restrict_to(candidates)
        if prefix_tokens is not None:
            prefix_tokens = torch.searchsorted(candidates, prefix_tokens.contiguous())
        start = int(torch.searchsorted(candidates, start))
        finalized = self._search(sample, prefix_tokens, None, start, len(candidates))
        for hypotheses in finalized:
            for hypothesis in hypotheses:
                hypothesis["tokens"] = candidates[hypothesis["tokens"]]
        return finalized

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
