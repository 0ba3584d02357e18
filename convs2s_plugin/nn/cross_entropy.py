"""Cross-entropy of a projection to words that never holds the scores of a whole batch."""

from typing import NamedTuple

import torch
from torch import Tensor

from .linear import linear

# Scores held at a time, 64 MiB in single precision at most, and of how many words. More only take
# memory, which a CPU's caches do not hold; fewer words make the matrix products slower.
SCORES_AT_A_TIME = 2**24
WORDS_AT_A_TIME = 1024
# The logarithm of a smaller probability is taken from the scores.
TINY = 1e-30


class CrossEntropy(NamedTuple):
    """Sums over N words, as tensors without dimensions; only ``loss`` has a gradient."""

    loss: Tensor
    nll: Tensor
    correct: Tensor


def linear_cross_entropy(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    label_smoothing: float = 0.0,
    count_correct: bool = False,
) -> CrossEntropy:
    """The loss of ``features @ weight.T + bias``, and its gradient, a few rows at a time.

    The gradient is made together with the loss, while the scores of some rows are there, so that
    each of the three matrix products is done once. Label smoothing is fairseq's: V - 1 words
    share it. Under autocast, products are of its type, and all sums of single precision.

    Args:
        features: N x C.
        weight: V x C.
        bias: V, or None.
        target: N indices of words, none of them padding.
        label_smoothing: probability taken from the right word (0).
        count_correct: count the words that have the highest score of all; else ``correct`` is 0.
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}, but must be in [0, 1).")
    kind = features.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    inputs = [x for x in (features, weight, bias) if x is not None]
    differentiate = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.autocast(kind, enabled=False):
        loss, nll, correct = _LinearCrossEntropy.apply(
            features, weight, bias, target, label_smoothing, count_correct, dtype, differentiate
        )
    return CrossEntropy(loss, nll, correct)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, features, weight, bias, target, label_smoothing, count_correct, dtype, differentiate
    ):
        words, exact = len(weight), _at_least_single(weight.dtype)
        others = label_smoothing / (words - 1) if label_smoothing else 0.0
        right = 1.0 - label_smoothing - others

        x, w = features.to(dtype), weight.to(dtype)
        rows = max(1, min(len(x), WORDS_AT_A_TIME, SCORES_AT_A_TIME // words))
        buffer = w.new_empty(rows, words, dtype=exact)
        log_normaliser = w.new_empty(len(x), 1, dtype=exact)
        right_score = torch.empty_like(log_normaliser)
        correct = torch.zeros((), dtype=torch.long, device=x.device)
        if differentiate:
            x_grad = torch.zeros_like(features, dtype=exact)
            w_grad = torch.zeros_like(weight, dtype=exact)
            b_grad = w.new_zeros(words, dtype=exact)

        for start in range(0, len(x), rows):
            part = slice(start, min(start + rows, len(x)))
            labels = target[part].unsqueeze(1)
            scores = _scores(x[part], w, bias, out=buffer[: len(labels)])
            score = right_score[part] = scores.gather(1, labels)
            if count_correct:
                correct += (scores.argmax(dim=1, keepdim=True) == labels).sum()
            # In place: fresh memory of this size costs a third of a product.
            probabilities = torch.softmax(scores, dim=1, out=scores)
            probability = probabilities.gather(1, labels)
            log_normaliser[part] = score - probability.log()
            if bool((probability < TINY).any()):
                tiny = (probability < TINY).squeeze(1)
                scores = _scores(x[part][tiny], w, bias, out=torch.empty_like(scores[tiny]))
                log_normaliser[part][tiny] = scores.logsumexp(dim=1, keepdim=True)
            if differentiate:
                probabilities.scatter_add_(1, labels, torch.full_like(score, -right))
                gradient = probabilities.to(dtype)
                x_grad[part] = linear(gradient, w.t())
                if dtype == exact:
                    w_grad.addmm_(gradient.t(), x[part])
                else:
                    w_grad += gradient.t() @ x[part]
                b_grad += probabilities.sum(dim=0)

        nll = (log_normaliser - right_score).sum()
        loss = right * nll
        if others:
            # What all words share is of rank one: its part needs no pass over N x V.
            w_sum = w.sum(dim=0, dtype=exact)
            x_sum = x.sum(dim=0, dtype=exact)
            all_scores = x_sum @ w_sum
            if bias is not None:
                all_scores = all_scores + len(x) * bias.sum(dtype=exact)
            loss = loss + others * (words * log_normaliser.sum() - all_scores)
            if differentiate:
                x_grad -= others * w_sum
                w_grad -= others * x_sum
                b_grad -= others * len(x)
        if differentiate:
            ctx.gradients = (x_grad, w_grad, b_grad)
            ctx.dtypes = [None if p is None else p.dtype for p in (features, weight, bias)]
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    def backward(ctx, grad_loss, grad_nll, grad_correct):
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            raise RuntimeError("The gradient of this loss was already used; it is kept only once.")
        scaled = [
            None if dtype is None else gradient.mul_(grad_loss).to(dtype)
            for gradient, dtype in zip(gradients, ctx.dtypes)
        ]
        return (*scaled, None, None, None, None, None)


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def _scores(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """x @ weight.T + bias in ``out``, whose precision may be higher."""
    if x.dtype != out.dtype:
        out.copy_(x @ weight.t())
        return out if bias is None else out.add_(bias)
    if bias is None:
        return torch.mm(x, weight.t(), out=out)
    return torch.addmm(bias.to(out.dtype), x, weight.t(), out=out)
