"""Alignments that fairseq's commands print, and those of references."""

from typing import Any

from fairseq import utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.translation.alignment import hard_alignment

from .decoding import attention_in, moves_padding, padded_left, with_attention

# Values of --print-alignment.
ALIGNMENTS = {"hard": hard_alignment, "soft": utils.extract_soft_alignment}


class ScoredModel:
    """A model as fairseq's scorer calls it.

    Attention may depend on the tokens, or may refer to a source whose padding was moved. The
    scorer adds up the attention of the models, and fails if one without attention follows one with
    it.

    Args:
        model: a model of this package or of fairseq.
        target: B x T tokens, the reference translations.
        need_weights: whether attention is needed.
    """

    def __init__(self, model: FairseqEncoderDecoderModel, target: Tensor, need_weights: bool):
        self._model = with_attention(model, need_weights)
        self._pad = model.encoder.dictionary.pad()
        self._aligned = {}
        if need_weights and getattr(model.decoder, "aligns_tokens", False):
            self._aligned["target_tokens"] = target
        self.eval = self._model.eval
        self.get_normalized_probs = self._model.get_normalized_probs

    def __call__(self, **net_input: Any) -> tuple[Any, ...]:
        output, *rest = self._model(**net_input, **self._aligned)
        extra = rest[0] if rest else None
        attention = attention_in(extra)
        if isinstance(extra, dict) and attention is None:
            extra = {**extra, "attn": None}
        elif attention is not None and moves_padding(self._model):
            extra = padded_left(attention, net_input["src_tokens"].eq(self._pad).sum(dim=1))
        return output, extra


class ReferenceScorer(SequenceScorer):
    """fairseq's scorer of reference translations, with the attention of their tokens.

    Args:
        tgt_dict: as in fairseq.
        alignment: "hard" or "soft" to add an alignment to each translation; None for no alignment.
    """

    def __init__(self, tgt_dict, alignment: str | None = None):
        super().__init__(tgt_dict)
        self.extract_alignment = ALIGNMENTS[alignment] if alignment else None

    def generate(self, models, sample, **options):
        """Score a batch of translations.

        Raises:
            UserError: if an alignment is needed, but no model has attention.
        """
        align = self.extract_alignment is not None
        each = [ScoredModel(model, sample["target"], align) for model in models]
        scored = super().generate(each, sample, **options)
        if self.extract_alignment is not None:
            for source, target, (hypothesis,) in zip(
                sample["net_input"]["src_tokens"], sample["target"], scored
            ):
                if hypothesis["attention"] is None:
                    raise UserError(
                        "--print-alignment needs attention weights, but the model returns none."
                    )
                hypothesis["alignment"] = self.extract_alignment(
                    hypothesis["attention"], source, target, self.pad, self.eos
                )
        return scored
