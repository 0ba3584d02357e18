"""fairseq's SequenceGenerator with the library's search, shortlists, alignments, unknown words."""

import copy
import logging
import weakref
from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.common.memory import keep_freed_memory
from convs2s.translation.alignment import attention_to_chosen_tokens
from convs2s.translation.decoding import Decoding, Model, next_tokens
from convs2s.translation.directions import search
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import Finished
from convs2s.translation.shortlist import Shortlist

from ..models.adapters import output_layer_of
from .decoding import search_model
from .unknown_words import UnknownWords
from .word_alignment import ALIGNMENTS

logger = logging.getLogger(__name__)

# Options of fairseq's generator that the library's search does not have.
OF_FAIRSEQ = (
    "eos",
    "lm_model",
    "match_source_len",
    "max_len",
    "no_repeat_ngram_size",
    "tokens_to_suppress",
)


def log_mean_size(sizes: Sequence[int], vocab_size: int) -> None:
    """Log the mean size of the shortlists of some batches, if there are any.

    Args:
        sizes: the size of each shortlist.
        vocab_size: V of the whole target vocabulary.
    """
    # The log may be a closed file at the exit of the interpreter.
    streams = [getattr(handler, "stream", None) for handler in logging.getLogger().handlers]
    if sizes and not any(getattr(stream, "closed", False) for stream in streams):
        mean = sum(sizes) / len(sizes)
        logger.info(
            f"candidate vocabularies: {mean:,.0f} of {vocab_size:,} tokens on average "
            f"({mean / vocab_size:.1%}), {len(sizes):,} batches"
        )


class TranslationGenerator(SequenceGenerator):
    """fairseq's generator, for all model families.

    Beam search is the library's, which finds the same in less time; other searches are fairseq's.

    Args:
        models, tgt_dict: as in fairseq.
        vocab_size: V, the size of the models' target vocabulary; the dictionary may have grown.
        shortlist: restricts the target vocabulary of each batch; None to search in all of it.
        alignment: "hard" or "soft" to add an alignment to each hypothesis; None for no alignment.
        unknown_words: replaces unknown words in hypotheses; None to keep them.
        options: as in fairseq.
    Attributes:
        need_weights: whether hypotheses have attention.
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
        if hasattr(options.get("lm_model"), "encoder"):
            raise UserError(
                "--lm-path names a translation model, but needs a language model with the target "
                "dictionary: give that, or omit the option."
            )
        if shortlist is not None:
            if options.get("lm_model") is not None:
                raise UserError(
                    "--lm-path scores the whole vocabulary, but --lexicon restricts it to the "
                    "candidates of a batch: omit one of them."
                )
            for model in models:
                output_layer_of(model.decoder)
        super().__init__(models, tgt_dict, **options)
        if all(each.device.type == "cpu" for each in self.model.parameters()):
            keep_freed_memory()
        self.translation_models = [search_model(model) for model in models]
        self.whole_vocab_size = vocab_size
        self.shortlist = shortlist
        self.shortlist_sizes: list[int] = []
        # fairseq's commands do not tell the task that they end: report when the generator is
        # deleted, which is at the exit of the interpreter at the latest.
        weakref.finalize(self, log_mean_size, self.shortlist_sizes, vocab_size)
        self.extract_alignment = ALIGNMENTS[alignment] if alignment else None
        self.unknown_words = unknown_words
        self.need_weights = alignment is not None or unknown_words is not None
        # Only fairseq has sampling, diverse and constrained searches, and these options.
        self.is_beam_search = type(self.search) is BeamSearch and not any(
            map(options.get, OF_FAIRSEQ)
        )

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
            if constraints is not None:
                # Besides tokens, these have numbers, which are smaller than any vocabulary.
                constraints = self.unknown_words.mask_target(constraints)
        start = self.eos if bos_token is None else bos_token
        tokens = self._shortlist_of(sample, prefix_tokens, constraints, start)
        if self.is_beam_search and constraints is None and start == self.eos:
            found = search(
                self.translation_models,
                sample["net_input"]["src_tokens"],
                self.tgt_dict,
                SearchOptions(
                    beam=self.beam_size,
                    lenpen=self.len_penalty,
                    unnormalized=not self.normalize_scores,
                    unkpen=self.unk_penalty,
                    temperature=self.temperature,
                    min_len=self.min_len,
                    max_len_a=self.max_len_a,
                    max_len_b=self.max_len_b,
                ),
                prefix=prefix_tokens,
                shortlist=tokens,
                need_weights=self.need_weights,
            )
            finalized = [[_as_in_fairseq(each) for each in hypotheses] for hypotheses in found]
        else:
            finalized = self._fairseqs_search(sample, prefix_tokens, constraints, start, tokens)
        if self.need_weights:
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
                "the candidates of a batch: omit one of them."
            )
        src_tokens = sample["net_input"]["src_tokens"]
        required = [src_tokens.new_tensor([start])]
        if prefix_tokens is not None:
            required.append(prefix_tokens)
        tokens = self.shortlist(src_tokens, *required, min_size=2 * self.beam_size + 1)
        self.shortlist_sizes.append(len(tokens))
        return tokens

    def _fairseqs_search(
        self, sample, prefix_tokens, constraints, start: int, shortlist: Tensor | None
    ):
        """fairseq's search, with tokens numbered by their position in the shortlist."""
        models = self.translation_models
        if any(model.right_to_left for model in models):
            raise UserError(
                "A model predicts the last token first (--right-to-left), which only beam search "
                "knows: omit options such as --sampling, --constraints or --lm-path."
            )
        aligns_tokens = self.need_weights and any(model.aligns_tokens for model in models)
        in_steps = self.need_weights and not aligns_tokens
        # Threads may share the generator: what a batch needs is in a copy. Diverse and constrained
        # searches keep their progress in ``search``.
        call = copy.copy(self)
        call._modules = {**self._modules, "search": copy.copy(self.search)}
        call.vocab_size = self.whole_vocab_size if shortlist is None else len(shortlist)
        call.model = BatchEnsemble(models, in_steps, shortlist)
        first = start
        if shortlist is not None:
            first = int(torch.searchsorted(shortlist, start))
            if prefix_tokens is not None:
                prefix_tokens = torch.searchsorted(shortlist, prefix_tokens.contiguous())
        finalized = super(TranslationGenerator, call)._generate(
            sample, prefix_tokens, constraints, first
        )
        hypotheses = [each for of_sentence in finalized for each in of_sentence]
        if shortlist is not None:
            for hypothesis in hypotheses:
                hypothesis["tokens"] = shortlist[hypothesis["tokens"]]
        if aligns_tokens:
            tokens = [[each["tokens"] for each in of_sentence] for of_sentence in finalized]
            attention = attention_to_chosen_tokens(
                models, call.model.encoded, tokens, start, self.pad
            )
            for hypothesis, weights in zip(hypotheses, chain.from_iterable(attention)):
                if weights is not None:
                    hypothesis["attention"] = weights.t()
        return finalized

    def _use_attention(self, source: Tensor, hypothesis: dict[str, Tensor]) -> None:
        """Add the alignment to a hypothesis, and replace its unknown words.

        Args:
            source: S source token indices, with padding.
            hypothesis: fairseq's hypothesis, with ``attention`` S x T; it is changed in place.
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


def _as_in_fairseq(found: Finished) -> dict[str, Tensor]:
    attention = found.attention
    return {
        "tokens": found.tokens,
        "score": found.token_scores.new_tensor(found.score),
        "attention": torch.empty(0) if attention is None else attention.t(),
        "alignment": torch.empty(0),
        "positional_scores": found.token_scores,
    }


class BatchEnsemble(EnsembleModel):
    """fairseq's ensemble for one batch.

    Args:
        models: the models.
        need_weights: whether steps return attention.
        shortlist: K token indices to which the vocabulary is restricted, or None.
    """

    def __init__(
        self,
        models: Sequence[Model],
        need_weights: bool,
        shortlist: Tensor | None,
    ):
        super().__init__([model.module for model in models])
        self._each, self._need_weights, self._shortlist = models, need_weights, shortlist
        self.encoded: list[Any] = []

    def forward_encoder(self, net_input: dict[str, Tensor]) -> list[Decoding]:
        """Encode the batch, and start to decode it."""
        self.encoded = [model.encode(net_input["src_tokens"]) for model in self._each]
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
        """The scores R x V of the next tokens, and attention R x S.

        Args:
            tokens, temperature: as in fairseq.
            encoder_outs: what ``forward_encoder`` returned.
            incremental_states: not used; the decodings have theirs.
        """
        following = next_tokens(encoder_outs, tokens, temperature)
        return following.log_probs_of(slice(None)), following.attention

    def reorder_encoder_out(
        self, encoder_outs: list[Decoding], new_order: Tensor
    ) -> list[Decoding]:
        """Let hypothesis i continue hypothesis ``new_order[i]``."""
        for decoding in encoder_outs:
            decoding.reorder_(new_order)
        return encoder_outs

    def reorder_incremental_state(self, incremental_states: list[Any], new_order: Tensor) -> None:
        """Do nothing: fairseq calls ``reorder_encoder_out`` as well."""
