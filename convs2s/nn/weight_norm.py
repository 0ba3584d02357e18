"""Linear layers with weight normalization (Salimans and Kingma 2016)."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .int8 import Int8Matrix, Weight, dense, quantize_parameter_, select_rows
from .linear import linear


class WeightNormLinear(nn.Module):
    """``y = x W^T + b`` with ``W = g v / |v|``, with one norm per output channel.

    The initialization is ConvS2S's (section 3.5, appendix A.3): normal with variance
    ``gain * (1 - dropout) / in_features``, and zero biases.

    Args:
        in_features: input channels.
        out_features: output channels.
        dropout: probability of dropping an input channel before this layer (0).
        gain: variance of the output over that of the input (1; 4 before a GLU).
    """

    weight: nn.Parameter | Int8Matrix | None
    # W, and what tells whether v and g are still those that it was computed from.
    _kept: tuple[Tensor, list[Any], list[Tensor]] | None = None

    def __init__(
        self, in_features: int, out_features: int, dropout: float = 0.0, gain: float = 1.0
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        weight = torch.empty(out_features, in_features)
        nn.init.normal_(weight, std=math.sqrt(gain * (1.0 - dropout) / in_features))
        self.weight_v = nn.Parameter(weight)
        self.weight_g = nn.Parameter(weight.norm(dim=1, keepdim=True))
        self.bias = nn.Parameter(torch.zeros(out_features))
        self.register_parameter("weight", None)

    def forward(self, x: Tensor) -> Tensor:
        """Map ... x in_features to ... x out_features."""
        return linear(x, self.effective_weight(), self.bias)

    def effective_weight(self) -> Weight:
        """W, out_features x in_features; in evaluation mode without gradients, W is kept."""
        if self.weight is not None:
            return self.weight
        v, g = self.weight_v, self.weight_g
        if self.training or torch.is_grad_enabled() or not _count_changes(v, g):
            self._kept = None
            return torch._weight_norm(v, g, 0)
        stamps = [(factor.data_ptr(), factor._version, factor.dtype) for factor in (v, g)]
        kept = self._kept
        if kept is None or kept[1] != stamps:
            # The aliases hold the memory of v and g, so that no other tensor can have its address.
            kept = torch._weight_norm(v, g, 0), stamps, [v.detach(), g.detach()]
            self._kept = kept
        return kept[0]

    def train(self, mode: bool = True) -> "WeightNormLinear":
        """Change the mode and drop W: optimizers may write to g and v unseen, by ``.data``."""
        self._kept = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def weight_and_bias(self, tokens: Tensor | None = None) -> tuple[Weight, Tensor]:
        """W and b of an output projection.

        Args:
            tokens: K token indices; None for the whole vocabulary.
        Returns:
            K x in_features and K, in the order of ``tokens``.
        """
        if tokens is None:
            return self.effective_weight(), self.bias
        bias = self.bias.index_select(0, tokens)
        if self.weight is not None:
            return select_rows(self.weight, tokens), bias
        v, g = self.weight_v.index_select(0, tokens), self.weight_g.index_select(0, tokens)
        return torch._weight_norm(v, g, 0), bias

    @torch.no_grad()
    def fold_(self) -> None:
        """Replace g and v by W, for inference."""
        if self.weight is None:
            weight = self.effective_weight()
            self.register_parameter("weight_v", None)
            self.register_parameter("weight_g", None)
            self.weight = nn.Parameter(dense(weight), requires_grad=False)
            self._kept = None

    def quantize_weights_(self) -> None:
        """Replace the folded weight by one in 8 bits, for inference."""
        quantize_parameter_(self)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, folded={self.weight is not None}"


def _count_changes(*tensors: Tensor) -> bool:
    """Whether tensors count their changes: not in inference mode, nor where a graph is made."""
    making_graph = torch.jit.is_tracing() or torch.compiler.is_compiling()
    return not making_graph and not any(tensor.is_inference() for tensor in tensors)


def fold_weight_norm_(module: nn.Module) -> None:
    """Fold the weight normalization of all layers in ``module``, which cannot be trained then."""
    for part in module.modules():
        if isinstance(part, WeightNormLinear):
            part.fold_()
