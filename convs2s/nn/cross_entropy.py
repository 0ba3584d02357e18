"""Cross-entropy of an output projection that never holds the logits of a whole batch."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .gradient import first_derivatives_only, take
from .linear import autocast_dtype, linear

# Limits of a chunk: logits (64 MiB in single precision) and tokens. Larger chunks only take memory
# that a CPU's caches cannot hold; fewer tokens make the matrix multiplications slower.
CHUNK_LOGITS = 2**24
CHUNK_TOKENS = 1024
# Smaller probabilities may have underflowed: their logarithms are computed from the logits.
MIN_PROBABILITY = 1e-30


class CrossEntropy(NamedTuple):
    """Sums over N tokens, as tensors without dimensions; only ``loss`` has a gradient.

    Attributes:
        loss: label-smoothed cross-entropy, in nats.
        nll: negative log-likelihood, in nats.
        correct: tokens whose logit is the largest; 0 if they were not counted.
    """

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
    """Cross-entropy of the logits ``features @ weight.T + bias``, chunk by chunk.

    The gradient of a chunk is computed together with its loss, while its logits are in memory, so
    each of the three matrix multiplications is done once. Label smoothing is fairseq's: the
    other V - 1 tokens share it. Under autocast, matrix multiplications use its dtype, and all sums
    are in single precision.

    Args:
        features: N x C.
        weight: V x C.
        bias: V, or None.
        target: N token indices, without padding.
        label_smoothing: probability taken from the target token (0).
        count_correct: whether to count tokens whose logit is the largest (False).
    Raises:
        ValueError: if ``label_smoothing`` is not in [0, 1).
    """
    if not 0.0 <= label_smoothing < 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}, but must be in [0, 1).")
    loss, nll, correct = apply_to_projection(
        _LinearCrossEntropy, features, weight, bias, target, label_smoothing, count_correct
    )
    return CrossEntropy(loss, nll, correct)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        label_smoothing: float,
        count_correct: bool,
        dtype: torch.dtype,
        need_grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        vocab_size = len(weight)
        exact = torch.promote_types(weight.dtype, torch.float32)
        # The smoothed target distribution: p_other for all tokens, and p_extra more for the target.
        p_other = label_smoothing / (vocab_size - 1) if label_smoothing else 0.0
        p_extra = 1.0 - label_smoothing - p_other

        x, w = features.to(dtype), weight.to(dtype)
        write = partial(write_logits, weight=w, bias=bias)
        size = chunk_size(len(x), vocab_size)
        buffer = w.new_empty(size, vocab_size, dtype=exact)
        log_normalizer = w.new_empty(len(x), 1, dtype=exact)
        target_logit = torch.empty_like(log_normalizer)
        correct = torch.zeros((), dtype=torch.long, device=x.device)
        if need_grad:
            gradients = ProjectionGradients.zeros(x, w, bias is not None, exact)

        for start in range(0, len(x), size):
            chunk = slice(start, min(start + size, len(x)))
            labels = target[chunk].unsqueeze(1)
            logits = write(x[chunk], out=buffer[: len(labels)])
            if count_correct:
                correct += (logits.argmax(dim=1, keepdim=True) == labels).sum()
            target_logit[chunk], log_normalizer[chunk] = softmax_in_place(
                logits, labels, x[chunk], write
            )
            if need_grad:
                difference = logits.new_full(labels.shape, -p_extra)
                gradients.add(chunk, logits.scatter_add_(1, labels, difference), x, w)

        nll = (log_normalizer - target_logit).sum()
        loss = p_extra * nll
        if p_other:
            loss = loss + p_other * (vocab_size * log_normalizer.sum() - sum_of_logits(x, w, bias))
            if need_grad:
                gradients.add_to_all(slice(None), -p_other, x, w)
        if need_grad:
            ctx.gradients = gradients
            ctx.dtypes = [None if p is None else p.dtype for p in (features, weight, bias)]
        ctx.mark_non_differentiable(nll, correct)
        return loss, nll, correct

    @staticmethod
    @first_derivatives_only
    def backward(
        ctx: Any, grad_loss: Tensor, grad_nll: Tensor, grad_correct: Tensor
    ) -> tuple[Tensor | None, ...]:
        return (*scaled_gradients(ctx, grad_loss), *[None] * 5)


def scaled_gradients(ctx: Any, grad_loss: Tensor) -> list[Tensor | None]:
    """The gradients of features, weight and bias in a backward pass.

    Args:
        ctx: has ``gradients``, those of the loss, and ``dtypes``, those of the inputs.
        grad_loss: the gradient of the loss, without dimensions.
    """
    gradients = take(ctx, "gradients")
    return [
        None if gradient is None else gradient.mul_(grad_loss).to(dtype)
        for gradient, dtype in zip(gradients, ctx.dtypes)
    ]


def apply_to_projection(
    function: type[torch.autograd.Function],
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *arguments: Any,
) -> Any:
    """Apply an autograd function outside autocast, and tell it the dtype of autocast.

    Args:
        function: its forward pass takes ``features``, ``weight``, ``bias``, ``arguments``, the
            dtype of matrix multiplications, and whether a gradient is needed.
        features: N x C.
        weight: V x C.
        bias: V, or None.
        arguments: further arguments of the function.
    """
    dtype = autocast_dtype(weight)
    inputs = [x for x in (features, weight, bias) if x is not None]
    need_grad = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.autocast(features.device.type, enabled=False):
        return function.apply(features, weight, bias, *arguments, dtype, need_grad)


def chunk_size(num_tokens: int, vocab_size: int) -> int:
    """The number of tokens in a chunk."""
    return max(1, min(num_tokens, CHUNK_TOKENS, CHUNK_LOGITS // vocab_size))


def softmax_in_place(
    logits: Tensor, labels: Tensor, x: Tensor, write: Callable[..., Tensor]
) -> tuple[Tensor, Tensor]:
    """Turn logits into probabilities, in place.

    Args:
        logits: N x V.
        labels: N x 1 token indices.
        x: N x C, the features of these logits.
        write: writes the logits of features to ``out``, as ``write_logits`` does.
    Returns:
        The logits of the labels, and the logarithms of the sums of all exponentials; N x 1.
    """
    target_logit = logits.gather(1, labels)
    # In place: allocating so much fresh memory takes a third of the time of a matrix
    # multiplication.
    torch.softmax(logits, dim=1, out=logits)
    target_probability = logits.gather(1, labels)
    log_normalizer = target_logit - target_probability.log()
    tiny = target_probability < MIN_PROBABILITY
    if bool(tiny.any()):
        rows = tiny.squeeze(1)
        again = write(x[rows], out=torch.empty_like(logits[rows]))
        log_normalizer[rows] = again.logsumexp(dim=1, keepdim=True)
    return target_logit, log_normalizer


def sum_of_logits(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The sum of all N x V logits ``x @ weight.T + bias``, without computing them."""
    exact = torch.promote_types(weight.dtype, torch.float32)
    total = x.sum(dim=0, dtype=exact) @ weight.sum(dim=0, dtype=exact)
    return total if bias is None else total + len(x) * bias.sum(dtype=exact)


def write_logits(x: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Write x @ weight.T + bias to ``out``, whose precision may be higher."""
    if x.dtype != out.dtype:
        out.copy_(x @ weight.t())
        return out if bias is None else out.add_(bias)
    if bias is None:
        return torch.mm(x, weight.t(), out=out)
    return torch.addmm(bias.to(out.dtype), x, weight.t(), out=out)


class ProjectionGradients(NamedTuple):
    """Gradients, summed over chunks in single precision or better.

    Attributes:
        features: N x C.
        weight: V x C.
        bias: V, or None.
    """

    features: Tensor
    weight: Tensor
    bias: Tensor | None

    @classmethod
    def zeros(
        cls, x: Tensor, weight: Tensor, has_bias: bool, dtype: torch.dtype
    ) -> "ProjectionGradients":
        """Gradients of zero, for features x, a weight, and maybe a bias."""
        return cls(
            torch.zeros_like(x, dtype=dtype),
            torch.zeros_like(weight, dtype=dtype),
            weight.new_zeros(len(weight), dtype=dtype) if has_bias else None,
        )

    def add_to_all(self, rows: slice, value: float, x: Tensor, weight: Tensor) -> None:
        """Add the gradients of logits that all have the same gradient, which are of rank one.

        Args:
            rows: their tokens.
            value: the gradient of each logit.
            x, weight: see ``add``.
        """
        exact = self.weight.dtype
        self.features[rows].add_(weight.sum(dim=0, dtype=exact), alpha=value)
        self.weight.add_(x[rows].sum(dim=0, dtype=exact), alpha=value)
        if self.bias is not None:
            self.bias.add_(value * len(x[rows]))

    def add(self, chunk: slice | Tensor, logits_grad: Tensor, x: Tensor, weight: Tensor) -> None:
        """Add the gradients of a chunk.

        Args:
            chunk: its tokens, or their numbers.
            logits_grad: the gradient of its logits, N' x V.
            x: all features, in the dtype of matrix multiplications.
            weight: likewise.
        """
        if self.bias is not None:
            self.bias.add_(logits_grad.sum(dim=0))
        logits_grad = logits_grad.to(x.dtype)
        self.features[chunk] = linear(logits_grad, weight.t()).to(self.features.dtype)
        if x.dtype == self.weight.dtype:
            self.weight.addmm_(logits_grad.t(), x[chunk])
        else:
            self.weight.add_(logits_grad.t() @ x[chunk])
