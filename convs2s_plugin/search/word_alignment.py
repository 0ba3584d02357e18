"""Attention of given target tokens, for alignments that depend on the token.

The alignment of pervasive attention (equation 7) depends on the token at a position. During the
search it is only known for the most probable token. Once the tokens are chosen, one more forward
pass computes theirs.
"""

from itertools import zip_longest
from typing import Any

import torch
from fairseq import utils
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

# Values of --print-alignment.
ALIGNMENTS = {"hard": utils.extract_hard_alignment, "soft": utils.extract_soft_alignment}


def aligns_tokens(models: list[FairseqEncoderDecoderModel]) -> bool:
    """Whether attention depends on the tokens, and all models can compute it for given tokens.

    This holds if at least one decoder has ``aligns_tokens = True``, and all have the attribute.
    """
    aligns = [getattr(model.decoder, "aligns_tokens", None) for model in models]
    return any(aligns) and None not in aligns


def request_attention(models: list[FairseqEncoderDecoderModel], need_attn: bool) -> None:
    """Make every forward pass of the decoders return attention, or none.

    Args:
        models: an ensemble; decoders without an attribute ``need_attn`` are left unchanged.
        need_attn: whether attention is needed.
    """
    for model in models:
        if hasattr(model.decoder, "need_attn"):
            model.decoder.need_attn = need_attn


def attend_to_chosen_tokens(
    models: list[FairseqEncoderDecoderModel],
    net_input: dict[str, Tensor],
    finalized: list[list[dict[str, Any]]],
    start: int,
    pad: int,
) -> None:
    """Set the attention S x T of each hypothesis to that of its tokens, the mean over all models.

    Args:
        models: an ensemble for which ``aligns_tokens`` is true.
        net_input: the input of the batch.
        finalized: the hypotheses of each sentence, with ``tokens``; changed in place.
        start: index of the token before the first.
        pad: index of padding.
    """
    encoded = [model.encoder(net_input["src_tokens"], net_input["src_lengths"]) for model in models]
    # One batch for all best hypotheses, one for all second-best ones, and so on.
    for hypotheses in zip_longest(*finalized):
        sentences = [i for i, hypothesis in enumerate(hypotheses) if hypothesis is not None]
        tokens = [hypotheses[i]["tokens"] for i in sentences]
        target_tokens = pad_sequence(tokens, batch_first=True, padding_value=pad)
        prev_output_tokens = target_tokens.roll(1, dims=1)
        prev_output_tokens[:, 0] = start
        for row, length in enumerate(map(len, tokens)):
            prev_output_tokens[row, length:] = pad
        order = torch.tensor(sentences, device=target_tokens.device)
        attention = []
        for model, encoder_out in zip(models, encoded):
            _, extra = model.decoder(
                prev_output_tokens,
                encoder_out=model.encoder.reorder_encoder_out(encoder_out, order),
                features_only=True,
                need_attn=True,
                target_tokens=target_tokens,
            )
            attention.append(extra["attn"][0])
        mean = torch.stack(attention).mean(dim=0)
        for row, i in enumerate(sentences):
            hypotheses[i]["attention"] = mean[row, : len(tokens[row])].t()


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
