"""Attention for the words that a hypothesis or a reference holds.

Where an alignment depends on the word (pervasive attention, equation 7), a step of the search has
only that of the word that scores best. When words are known, one more pass has theirs.
"""

from itertools import zip_longest
from typing import Any

import torch
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence


def align_words(models: list[nn.Module]) -> bool:
    """Whether some alignment depends on the word, and all models can be told the words."""
    known = [getattr(model.decoder, "aligns_words", None) for model in models]
    return any(known) and None not in known


def request_attention(models: list[nn.Module], need_attn: bool) -> None:
    """Let every pass of the models' decoders return attention, or none.

    Args:
        models: an ensemble; decoders without an attribute ``need_attn`` stay as they are.
        need_attn: whether attention is needed.
    """
    for model in models:
        if hasattr(model.decoder, "need_attn"):
            model.decoder.need_attn = need_attn


def attend_to_chosen_words(
    models: list[nn.Module],
    net_input: dict[str, Tensor],
    finalized: list[list[dict[str, Any]]],
    start: int,
    pad: int,
) -> None:
    """Give every hypothesis the attention that its words have, S x T, the mean of all models.

    Args:
        models: an ensemble for which ``align_words`` holds.
        net_input: of the batch.
        finalized: the hypotheses of each sentence, with ``tokens``.
        start: the word before the first.
        pad: the padding's index.
    """
    encoded = [model.encoder(net_input["src_tokens"], net_input["src_lengths"]) for model in models]
    # All best hypotheses, then all second best: as large a batch as the sentences are.
    for rank in zip_longest(*finalized):
        there = [i for i, hypothesis in enumerate(rank) if hypothesis is not None]
        tokens = [rank[i]["tokens"] for i in there]
        words = pad_sequence(tokens, batch_first=True, padding_value=pad)
        prefix = words.roll(1, dims=1)
        prefix[:, 0] = start
        for row, length in enumerate(map(len, tokens)):
            prefix[row, length:] = pad
        rows = torch.tensor(there, device=words.device)
        attention = []
        for model, source in zip(models, encoded):
            _, extra = model.decoder(
                prefix,
                encoder_out=model.encoder.reorder_encoder_out(source, rows),
                features_only=True,
                need_attn=True,
                target_tokens=words,
            )
            attention.append(extra["attn"][0])
        mean = torch.stack(attention).mean(dim=0)
        for row, i in enumerate(there):
            rank[i]["attention"] = mean[row, : len(tokens[row])].t()


class ReferenceScorer(SequenceScorer):
    """fairseq's scorer of given translations, with the attention that their words have."""

    def generate(self, models, sample, **options):
        """Score a batch of translations."""
        if align_words(models):
            net_input = {**sample["net_input"], "target_tokens": sample["target"]}
            sample = {**sample, "net_input": net_input}
        return super().generate(models, sample, **options)
