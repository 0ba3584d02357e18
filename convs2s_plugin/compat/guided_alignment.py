"""Training with alignments: ``--criterion label_smoothed_cross_entropy_with_alignment``."""

import functools
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment as Criterion,
)

from convs2s.common.errors import UserError


def train_with_alignments() -> None:
    """Let fairseq's criterion train the attention of the decoders of this package.

    They compute attention only if it is asked for, and fairseq's criterion does not ask.
    """
    original_forward = Criterion.forward
    original_loss = Criterion.compute_alignment_loss

    @functools.wraps(original_forward)
    def forward(self: Any, model: Any, sample: dict[str, Any], reduce: bool = True) -> Any:
        aligns_tokens = getattr(getattr(model, "decoder", None), "aligns_tokens", None)
        if aligns_tokens is not None and sample.get("alignments") is not None:
            net_input = {**sample["net_input"], "need_attn": True}
            if aligns_tokens:
                net_input["target_tokens"] = sample["target"]
            sample = {**sample, "net_input": net_input}
        return original_forward(self, model, sample, reduce)

    @functools.wraps(original_loss)
    def compute_alignment_loss(self: Any, sample: dict[str, Any], net_output: Any) -> Any:
        if net_output[1]["attn"][0] is None:
            raise UserError(
                "--criterion label_smoothed_cross_entropy_with_alignment needs attention to the "
                "source, but this model has none: use --criterion label_smoothed_cross_entropy."
            )
        return original_loss(self, sample, net_output)

    Criterion.forward = forward
    Criterion.compute_alignment_loss = compute_alignment_loss
