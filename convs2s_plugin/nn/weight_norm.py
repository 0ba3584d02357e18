"""Linear maps with weight normalisation (Salimans & Kingma 2016), and their folding."""

import math

import torch
from torch import Tensor, nn

from ..decoding.state import State
from .linear import linear


class WeightNormLinear(nn.Module):
    """``y = x W^T + b`` with ``W = g v / |v|``, one norm an output channel.

    The initialisation is that of ConvS2S (section 3.5, appendix A.3): normal with variance
    ``gain * (1 - dropout) / in_features``, biases zero.

    Args:
        in_features: input channels.
        out_features: output channels.
        dropout: probability with which the caller drops an input (0).
        gain: variance of the output over that of the input (1; 4 before a GLU).
    """

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

    def effective_weight(self) -> Tensor:
        """W, of shape out_features x in_features."""
        if self.weight is not None:
            return self.weight
        return torch._weight_norm(self.weight_v, self.weight_g, 0)

    def weight_and_bias(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """W and b, or only the output channels ``rows`` of them."""
        if rows is None:
            return self.effective_weight(), self.bias
        bias = self.bias.index_select(0, rows)
        if self.weight is not None:
            return self.weight.index_select(0, rows), bias
        v, g = self.weight_v.index_select(0, rows), self.weight_g.index_select(0, rows)
        return torch._weight_norm(v, g, 0), bias

    def forward(self, x: Tensor, state: State | None = None) -> Tensor:
        """Map ... x in_features to ... x out_features; with a state, W is computed only once."""
        return linear(x, self.weight_in(state), self.bias)

    def weight_in(self, state: State | None) -> Tensor:
        """W, which a state keeps for the steps to come."""
        if state is None or self.weight is not None:
            return self.effective_weight()
        return state.constant("weight", self.effective_weight)

    @torch.no_grad()
    def fold_(self) -> None:
        """Replace g and v by W, for inference."""
        if self.weight is None:
            weight = self.effective_weight()
            self.weight_v = self.weight_g = None
            self.weight = nn.Parameter(weight, requires_grad=False)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, folded={self.weight is not None}"


def fold_weight_norm_(module: nn.Module) -> None:
    """Fold every weight-normalised map inside ``module``, which can no longer be trained."""
    for part in module.modules():
        if isinstance(part, WeightNormLinear):
            part.fold_()
