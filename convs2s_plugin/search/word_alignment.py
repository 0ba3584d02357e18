"""Alignments that fairseq's commands print, and those of references."""

from fairseq import utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.sequence_scorer import SequenceScorer

from convs2s.translation.alignment import hard_alignment

from .decoding import with_attention

# Values of --print-alignment.
ALIGNMENTS = {"hard": hard_alignment, "soft": utils.extract_soft_alignment}


def aligns_tokens(models: list[FairseqEncoderDecoderModel]) -> bool:
    """Whether attention depends on the tokens, and all models can compute it for given tokens.

    This holds if at least one decoder has ``aligns_tokens = True``, and all have the attribute.
    """
    aligns = [getattr(model.decoder, "aligns_tokens", None) for model in models]
    return any(aligns) and None not in aligns


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
        """Score a batch of translations."""
        align = self.extract_alignment is not None
        models = [with_attention(model, align) for model in models]
        if aligns_tokens(models):
            net_input = {**sample["net_input"], "target_tokens": sample["target"]}
            sample = {**sample, "net_input": net_input}
        scored = super().generate(models, sample, **options)
        if self.extract_alignment is not None:
            for source, target, (hypothesis,) in zip(
                sample["net_input"]["src_tokens"], sample["target"], scored
            ):
                hypothesis["alignment"] = self.extract_alignment(
                    hypothesis["attention"], source, target, self.pad, self.eos
                )
        return scored
