"""The output projection in chunks of tokens: its logits, and its gradients from theirs."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .linear import linear

# Limits of a chunk: logits (64 MiB in single precision) and tokens. Larger chunks only take memory
# that a CPU's caches cannot hold; fewer tokens make the matrix multiplications slower.
CHUNK_LOGITS = 2**24
CHUNK_TOKENS = 1024


def apply_to_projection(
    function: type[torch.autograd.Function],
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *arguments: Any,
) -> Any:
    """Apply an autograd function outside of autocast, and tell it the dtype of autocast.

    Args:
        function: its forward pass takes ``features``, ``weight``, ``bias``, ``arguments``, the
            dtype of matrix multiplications, and whether a gradient is needed.
        features: N x C.
        weight: V x C.
        bias: V, or None.
        arguments: further ones.
    """
    device_type = features.device.type
    dtype = weight.dtype
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
    inputs = [x for x in (features, weight, bias) if x is not None]
    need_grad = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    with torch.autocast(device_type, enabled=False):
        return function.apply(features, weight, bias, *arguments, dtype, need_grad)


def chunk_size(num_tokens: int, vocab_size: int) -> int:
    """The number of tokens in a chunk."""
    return max(1, min(num_tokens, CHUNK_TOKENS, CHUNK_LOGITS // vocab_size))


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
        bias: V.
    """

    features: Tensor
    weight: Tensor
    bias: Tensor

    @classmethod
    def zeros(cls, x: Tensor, weight: Tensor, dtype: torch.dtype) -> "ProjectionGradients":
        """Gradients of zero, for features x and a weight."""
        return cls(
            torch.zeros_like(x, dtype=dtype),
            torch.zeros_like(weight, dtype=dtype),
            weight.new_zeros(len(weight), dtype=dtype),
        )

    def add(self, chunk: slice, logits_grad: Tensor, x: Tensor, weight: Tensor) -> None:
        """Add the gradients of a chunk.

        Args:
            chunk: its tokens.
            logits_grad: the gradient of its logits, N' x V.
            x: all features, in the dtype of matrix multiplications.
            weight: likewise.
        """
        self.bias.add_(logits_grad.sum(dim=0))
        logits_grad = logits_grad.to(x.dtype)
        self.features[chunk] = linear(logits_grad, weight.t())
        if x.dtype == self.weight.dtype:
            self.weight.addmm_(logits_grad.t(), x[chunk])
        else:
            self.weight.add_(logits_grad.t() @ x[chunk])
