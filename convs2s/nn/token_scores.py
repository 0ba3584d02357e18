"""Scores of given tokens: log-probabilities, whose gradient needs no second softmax, and logits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .cross_entropy import ProjectionGradients, apply_to_projection, chunk_size, write_logits
from .gradient import first_derivatives_only, take


def token_log_probabilities(
    features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
) -> Tensor:
    """Log-probabilities of tokens under the logits ``features @ weight.T + bias``.

    For the gradient, the log-probabilities of the whole vocabulary stay in memory; the backward
    pass overwrites them. Under autocast, matrix multiplications use its dtype, and the softmax is
    in single precision.

    Args:
        features: N x C.
        weight: V x C.
        bias: V, or None.
        target: N token indices.
    Returns:
        N log-probabilities in nats.
    """
    log_probabilities: Tensor = apply_to_projection(
        _TokenLogProbabilities, features, weight, bias, target
    )
    return log_probabilities


def token_logits(features: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """The logits of tokens, N; see ``token_log_probabilities``. No other logits are computed."""
    exact = torch.promote_types(weight.dtype, torch.float32)
    with torch.autocast(features.device.type, enabled=False):
        logits = (features.to(exact) * F.embedding(target, weight).to(exact)).sum(dim=1)
        return logits if bias is None else logits + bias[target]


class _TokenLogProbabilities(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        dtype: torch.dtype,
        need_grad: bool,
    ) -> Tensor:
        exact = torch.promote_types(weight.dtype, torch.float32)
        x, w = features.to(dtype), weight.to(dtype)
        size = chunk_size(len(x), len(w))
        kept = w.new_empty(len(x) if need_grad else size, len(w), dtype=exact)
        scores = w.new_empty(len(x), 1, dtype=exact)
        for start in range(0, len(x), size):
            chunk = slice(start, min(start + size, len(x)))
            labels = target[chunk].unsqueeze(1)
            memory = kept[chunk] if need_grad else kept[: len(labels)]
            logits = write_logits(x[chunk], w, bias, out=memory)
            scores[chunk] = torch.log_softmax(logits, dim=1, out=logits).gather(1, labels)
        if need_grad:
            ctx.log_probabilities = kept
            ctx.save_for_backward(x, w, target)
            ctx.chunk_size = size
            ctx.dtypes = [None if p is None else p.dtype for p in (features, weight, bias)]
        return scores.squeeze(1)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept = take(ctx, "log_probabilities")
        x, w, target = ctx.saved_tensors
        gradients = ProjectionGradients.zeros(x, w, ctx.dtypes[2] is not None, kept.dtype)
        for start in range(0, len(x), ctx.chunk_size):
            chunk = slice(start, min(start + ctx.chunk_size, len(x)))
            scale = grad[chunk].unsqueeze(1).to(kept.dtype)
            logits_grad = kept[chunk].exp_().mul_(-scale)
            logits_grad.scatter_add_(1, target[chunk].unsqueeze(1), scale)
            gradients.add(chunk, logits_grad, x, w)
        cast = [
            None if gradient is None else gradient.to(dtype)
            for gradient, dtype in zip(gradients, ctx.dtypes)
        ]
        return (*cast, None, None, None)
