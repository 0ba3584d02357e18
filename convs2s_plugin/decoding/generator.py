"""fairseq's SequenceGenerator with candidates, alignments and unknown words."""

import torch
from fairseq import utils
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor

from ..errors import UserError
from .candidate_model import CandidateModel
from .candidates import Candidates
from .unknown_words import UnknownWords
from .word_alignment import align_words, attend_to_chosen_words, request_attention

ALIGNMENTS = {"hard": utils.extract_hard_alignment, "soft": utils.extract_soft_alignment}


class TranslationGenerator(SequenceGenerator):
    """Searches as fairseq does, with what every family of models shares.

    Args:
        models, tgt_dict: as in fairseq.
        vocab_size: V, the target vocabulary of the models (the dictionary may have grown since).
        candidates: run the search of each batch in a reduced vocabulary; None: in the full one.
        alignment: "hard" or "soft" to give every hypothesis its alignment, or None.
        unknown_words: what replaces them in hypotheses, or None to leave them.
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
                    "--lm-path scores all words, --lexicon only a batch's candidates: leave one "
                    "of them out."
                )
            models = EnsembleModel([CandidateModel(model) for model in models])
        super().__init__(models, tgt_dict, **options)
        self.whole_models = whole_models
        self.vocab_size = vocab_size
        self.candidates = candidates
        self.extract_alignment = ALIGNMENTS[alignment] if alignment else None
        self.unknown_words = unknown_words
        # Alignments of single words are computed once, for the words of the final hypotheses.
        need_attn = alignment is not None or unknown_words is not None
        request_attention(whole_models, need_attn and not align_words(whole_models))

    def _generate(
        self,
        sample: dict,
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[dict[str, Tensor]]]:
        words = sample["net_input"]["src_tokens"]
        if self.unknown_words is not None:
            known = self.unknown_words.known_to_models(words)
            sample = {**sample, "net_input": {**sample["net_input"], "src_tokens": known}}
            prefix_tokens = self.unknown_words.prefix_known_to_models(prefix_tokens)
        if self.candidates is None:
            finalized = super()._generate(sample, prefix_tokens, constraints, bos_token)
        else:
            finalized = self._generate_among_candidates(
                sample, prefix_tokens, constraints, bos_token
            )
        if self.extract_alignment is None and self.unknown_words is None:
            return finalized
        if align_words(self.whole_models):
            start = self.eos if bos_token is None else bos_token
            attend_to_chosen_words(
                self.whole_models, sample["net_input"], finalized, start, self.pad
            )
        for source, hypotheses in zip(words.cpu(), finalized):
            for hypothesis in hypotheses:
                self._use_attention(source, hypothesis)
        return finalized

    def _generate_among_candidates(self, sample, prefix_tokens, constraints, bos_token):
        """Search with words numbered by their place among the candidates, and number them back."""
        if constraints is not None:
            raise UserError(
                "--constraints may ask for any word, --lexicon leaves only a batch's candidates: "
                "leave one of them out."
            )
        src_tokens = sample["net_input"]["src_tokens"]
        start = self.eos if bos_token is None else bos_token
        also = [src_tokens.new_tensor([start])]
        if prefix_tokens is not None:
            also.append(prefix_tokens)
        words = self.candidates(src_tokens, *also, at_least=2 * self.beam_size + 1)
        self.vocab_size = len(words)
        for model in self.model.models:
            model.decoder.restrict_to(words)
        if prefix_tokens is not None:
            prefix_tokens = torch.searchsorted(words, prefix_tokens)
        start = int(torch.searchsorted(words, start))
        finalized = super()._generate(sample, prefix_tokens, None, start)
        for hypotheses in finalized:
            for hypothesis in hypotheses:
                hypothesis["tokens"] = words[hypothesis["tokens"]]
        return finalized

    def _use_attention(self, source: Tensor, hypothesis: dict[str, Tensor]) -> None:
        """Give a hypothesis its alignment and replace its unknown words.

        Args:
            source: S indices, padding included.
            hypothesis: fairseq's, with ``attention`` S x T.
        """
        attention = hypothesis["attention"].cpu()
        if not attention.numel():
            raise UserError(
                "--print-alignment and --replace-unk need the attention of the model, which "
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
