"""Cross-entropy of two passes over one batch, and how far apart their predictions are."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .cross_entropy import (
    ProjectionGradients,
    apply_to_projection,
    chunk_size,
    scaled_gradients,
    write_logits,
)
from .gradient import first_derivatives_only


class Weights(NamedTuple):
    """What two passes with the predictions p and q add to the loss, per token.

    Attributes:
        second: weight of the cross-entropy of q; that of p has weight 1.
        forward: weight of KL(p || q).
        backward: weight of KL(q || p).
    """

    second: float
    forward: float
    backward: float

    @classmethod
    def simcut(cls, weight: float) -> "Weights":
        """SimCut (Gao et al. 2022): q is predicted from cut embeddings."""
        return cls(0.0, weight, 0.0)

    @classmethod
    def rdrop(cls, weight: float) -> "Weights":
        """R-Drop (Liang et al. 2021): p and q differ in their dropout."""
        return cls(1.0, weight / 2, weight / 2)


class TwoPasses(NamedTuple):
    """Sums over N tokens, as tensors without dimensions; only ``loss`` has a gradient.

    Attributes:
        loss: cross-entropies and divergences with their weights, in nats.
        nll: negative log-likelihood of the first pass, in nats.
        divergence: the divergences, weighted by their shares of the sum of their weights, in nats.
        correct: tokens whose logit is the largest in the first pass; 0 if they were not counted.
    """

    loss: Tensor
    nll: Tensor
    divergence: Tensor
    correct: Tensor


def cross_entropy_of_two_passes(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    weights: Weights,
    label_smoothing: float = 0.0,
    count_correct: bool = False,
) -> TwoPasses:
    """Cross-entropies and divergences of the logits ``features @ weight.T + bias``, in chunks.

    As in ``linear_cross_entropy``, gradients are computed while the logits of a chunk are in
    memory, and flow through both passes.

    Args:
        features: 2N x C: those of N tokens in the first pass, then in the second one.
        weight: V x C.
        bias: V, or None.
        target: N token indices, without padding.
        weights: those of the parts of the loss.
        label_smoothing: probability taken from the target token (0).
        count_correct: whether to count tokens whose logit is the largest (False).
    """
    return TwoPasses(
        *apply_to_projection(
            _TwoPasses, features, weight, bias, target, weights, label_smoothing, count_correct
        )
    )


class _TwoPasses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        weights: Weights,
        label_smoothing: float,
        count_correct: bool,
        dtype: torch.dtype,
        need_grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        vocab_size, num_tokens = len(weight), len(target)
        exact = torch.promote_types(weight.dtype, torch.float32)
        p_other = label_smoothing / (vocab_size - 1) if label_smoothing else 0.0
        p_extra = 1.0 - label_smoothing - p_other

        x, w = features.to(dtype), weight.to(dtype)
        size = chunk_size(num_tokens, 3 * vocab_size)
        buffers = w.new_empty(3, size, vocab_size, dtype=exact)
        zero = w.new_zeros((), dtype=exact)
        nll = [zero.clone(), zero.clone()]
        smoothed = [zero.clone(), zero.clone()]
        forward, backward = zero.clone(), zero.clone()
        correct = torch.zeros((), dtype=torch.long, device=x.device)
        if need_grad:
            gradients = ProjectionGradients.zeros(x, w, exact)

        for start in range(0, num_tokens, size):
            first = slice(start, min(start + size, num_tokens))
            second = slice(first.start + num_tokens, first.stop + num_tokens)
            labels = target[first].unsqueeze(1)
            p, q, ratio = buffers[:, : len(labels)]
            for number, (rows, logits) in enumerate(((first, p), (second, q))):
                write_logits(x[rows], w, bias, out=logits)
                if count_correct and rows is first:
                    correct += (logits.argmax(dim=1, keepdim=True) == labels).sum()
                torch.log_softmax(logits, dim=1, out=logits)
                nll[number] -= logits.gather(1, labels).sum()
                if p_other:
                    smoothed[number] -= logits.sum()
            torch.sub(p, q, out=ratio)
            # From here on p and q are probabilities.
            p.exp_()
            q.exp_()
            divergence_p = torch.linalg.vecdot(p, ratio).unsqueeze(1)
            divergence_q = -torch.linalg.vecdot(q, ratio).unsqueeze(1)
            forward += divergence_p.sum()
            backward += divergence_q.sum()
            if not need_grad:
                continue
            # The derivative of KL(p || q) by the logits of p is p (ratio - KL(p || q)), and by
            # those of q, q - p. Cross-entropies follow.
            of_p, of_q = weights.forward, weights.backward
            on_q = (ratio + divergence_q).mul_(q).mul_(-of_q) if of_q else None
            on_p = ratio.sub_(divergence_p).mul_(p).mul_(of_p)
            on_p.add_(p, alpha=1 + of_q).sub_(q, alpha=of_q)
            grad_q = q.mul_(weights.second + of_p).sub_(p, alpha=of_p)
            if on_q is not None:
                grad_q.add_(on_q)
            for rows, grad, share in ((first, on_p, 1.0), (second, grad_q, weights.second)):
                if share:
                    difference = grad.new_full(labels.shape, -share * p_extra)
                    grad.scatter_add_(1, labels, difference).sub_(share * p_other)
                gradients.add(rows, grad, x, w)

        loss = weights.forward * forward + weights.backward * backward
        for share, of_target, of_all in zip((1.0, weights.second), nll, smoothed):
            loss = loss + share * (p_extra * of_target + p_other * of_all)
        total = weights.forward + weights.backward
        divergence = (weights.forward * forward + weights.backward * backward) / total
        if need_grad:
            ctx.gradients = gradients
            ctx.dtypes = [None if each is None else each.dtype for each in (features, weight, bias)]
        ctx.mark_non_differentiable(nll[0], divergence, correct)
        return loss, nll[0], divergence, correct

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad_loss: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grad_loss), *[None] * 6)
