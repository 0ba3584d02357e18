"""Cross-entropy of two passes over one batch, and how far apart their predictions are."""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .cross_entropy import (
    ProjectionGradients,
    apply_to_projection,
    chunk_size,
    scaled_gradients,
    softmax_in_place,
    sum_of_logits,
    write_logits,
)
from .gradient import first_derivatives_only

# Pairs of tokens in a chunk. Fewer than in the cross-entropy of one pass, because the caches of a
# CPU must hold three times as many logits.
CHUNK_PAIRS = 256


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
        weights: the weights of the parts of the loss.
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
        write = partial(write_logits, weight=w, bias=bias)
        size = min(chunk_size(num_tokens, 3 * vocab_size), CHUNK_PAIRS)
        of_both = w.new_empty(2 * size * vocab_size, dtype=exact)
        of_ratio = w.new_empty(size, vocab_size, dtype=exact)
        target_logit = w.new_empty(2 * num_tokens, 1, dtype=exact)
        log_normalizer = torch.empty_like(target_logit)
        means = w.new_zeros(2, num_tokens, 1, dtype=exact)
        correct = torch.zeros((), dtype=torch.long, device=x.device)
        if need_grad:
            gradients = ProjectionGradients.zeros(x, w, bias is not None, exact)

        rows = torch.arange(2 * num_tokens, device=x.device).view(2, num_tokens)
        for start in range(0, num_tokens, size):
            chunk = slice(start, min(start + size, num_tokens))
            count = chunk.stop - start
            both, labels = rows[:, chunk].flatten(), target[chunk].repeat(2).unsqueeze(1)
            logits = of_both[: 2 * count * vocab_size].view(2 * count, vocab_size)
            p, q = logits.split(count)
            write(x[both], out=logits)
            if count_correct:
                correct += (p.argmax(dim=1) == target[chunk]).sum()
            # The logarithm of p / q, except for the difference of their normalizers.
            ratio = torch.sub(p, q, out=of_ratio[:count])
            # From here on p and q are probabilities.
            target_logit[both], log_normalizer[both] = softmax_in_place(
                logits, labels, x[both], write
            )
            means[0, chunk] = torch.linalg.vecdot(p, ratio).unsqueeze(1)
            if weights.backward:
                means[1, chunk] = torch.linalg.vecdot(q, ratio).unsqueeze(1)
            if need_grad:
                _logits_to_gradients(p, q, ratio, means[0, chunk], means[1, chunk], weights)
                difference = logits.new_full(labels.shape, -p_extra)
                difference[count:] *= weights.second
                gradients.add(both, logits.scatter_add_(1, labels, difference), x, w)

        target_logit, log_normalizer = (
            each.view(2, num_tokens) for each in (target_logit, log_normalizer)
        )
        offset = (log_normalizer[0] - log_normalizer[1]).sum()
        forward = means[0].sum() - offset
        backward = offset - means[1].sum() if weights.backward else torch.zeros_like(offset)
        nll = (log_normalizer - target_logit).sum(dim=1)
        divergence = weights.forward * forward + weights.backward * backward
        loss = divergence
        for number, share in enumerate((1.0, weights.second)):
            part = slice(number * num_tokens, (number + 1) * num_tokens)
            loss = loss + share * p_extra * nll[number]
            if p_other and share:
                smoothed = vocab_size * log_normalizer[number].sum()
                loss = loss + share * p_other * (smoothed - sum_of_logits(x[part], w, bias))
                if need_grad:
                    gradients.add_to_all(part, -share * p_other, x, w)
        divergence = divergence / (weights.forward + weights.backward)
        if need_grad:
            ctx.gradients = gradients
            ctx.dtypes = [None if each is None else each.dtype for each in (features, weight, bias)]
        first_nll = nll[0].clone()
        ctx.mark_non_differentiable(first_nll, divergence, correct)
        return loss, first_nll, divergence, correct

    @staticmethod
    @first_derivatives_only
    def backward(ctx: Any, grad_loss: Tensor, *others: Tensor) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grad_loss), *[None] * 6)


def _logits_to_gradients(
    p: Tensor, q: Tensor, ratio: Tensor, mean_p: Tensor, mean_q: Tensor, weights: Weights
) -> None:
    """Turn probabilities into gradients of the logits, in place and without the target tokens.

    The derivative of KL(p || q) by the logits of p is p (ratio - mean), and by those of q, q - p;
    that of the cross-entropy is p.

    Args:
        p, q: probabilities, N x V.
        ratio: log p / q, plus any number for each token, N x V; it is also changed.
        mean_p, mean_q: its means with the probabilities p and q, N x 1.
        weights: the weights of the parts of the loss.
    """
    second, of_p, of_q = weights
    if of_q:
        grad_q = torch.add(second + of_p + of_q * mean_q, ratio, alpha=-of_q)
        grad_q.mul_(q).sub_(p, alpha=of_p)
    torch.add(1 + of_q - of_p * mean_p, ratio, alpha=of_p, out=ratio)
    if of_q:
        p.mul_(ratio).sub_(q, alpha=of_q)
        q.copy_(grad_q)
    else:
        q.mul_(second + of_p).sub_(p, alpha=of_p)
        p.mul_(ratio)
