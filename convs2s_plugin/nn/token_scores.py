"""Scores of given tokens: log-probabilities, whose gradient needs no second softmax, and logits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .cross_entropy import CHUNK_LOGITS, CHUNK_TOKENS, write_logits
from .gradient import first_derivatives_only
from .linear import linear


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
    device_type = features.device.type
    dtype = weight.dtype
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
    inputs = [x for x in (features, weight, bias) if x is not None]
    need_grad = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.autocast(device_type, enabled=False):
        return _TokenLogProbabilities.apply(features, weight, bias, target, dtype, need_grad)


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
        chunk_size = max(1, min(len(x), CHUNK_TOKENS, CHUNK_LOGITS // len(w)))
        kept = w.new_empty(len(x) if need_grad else chunk_size, len(w), dtype=exact)
        scores = w.new_empty(len(x), 1, dtype=exact)
        for start in range(0, len(x), chunk_size):
            chunk = slice(start, min(start + chunk_size, len(x)))
            labels = target[chunk].unsqueeze(1)
            memory = kept[chunk] if need_grad else kept[: len(labels)]
            logits = write_logits(x[chunk], w, bias, out=memory)
            scores[chunk] = torch.log_softmax(logits, dim=1, out=logits).gather(1, labels)
        if need_grad:
            ctx.log_probabilities = kept
            ctx.save_for_backward(x, w, target)
            ctx.chunk_size = chunk_size
            ctx.dtypes = [None if p is None else p.dtype for p in (features, weight, bias)]
        return scores.squeeze(1)

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kept, ctx.log_probabilities = ctx.log_probabilities, None
        if kept is None:
            raise RuntimeError(
                "The backward pass of token_log_probabilities has run already; it can run only "
                "once."
            )
        x, w, target = ctx.saved_tensors
        exact = kept.dtype
        x_grad = torch.empty_like(x, dtype=exact)
        w_grad = torch.zeros_like(w, dtype=exact)
        b_grad = w.new_zeros(len(w), dtype=exact)
        for start in range(0, len(x), ctx.chunk_size):
            chunk = slice(start, min(start + ctx.chunk_size, len(x)))
            scale = grad[chunk].unsqueeze(1).to(exact)
            logits_grad = kept[chunk].exp_().mul_(-scale)
            logits_grad.scatter_add_(1, target[chunk].unsqueeze(1), scale)
            b_grad += logits_grad.sum(dim=0)
            logits_grad = logits_grad.to(w.dtype)
            x_grad[chunk] = linear(logits_grad, w.t())
            if w.dtype == exact:
                w_grad.addmm_(logits_grad.t(), x[chunk])
            else:
                w_grad += logits_grad.t() @ x[chunk]
        gradients = [
            None if dtype is None else gradient.to(dtype)
            for gradient, dtype in zip((x_grad, w_grad, b_grad), ctx.dtypes)
        ]
        return (*gradients, None, None, None)
