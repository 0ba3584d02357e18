"""Layers that treat every position by itself (Domhan 2018, section 2.3)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...nn import dropout
from ...nn.linear import Linear as FastLinear
from ..context import Context
from ..language.spec import LayerSpec

# As the original implementation has it; eps is added to the variance.
NORM_EPS = 1e-6

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "glu": F.glu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "swish": F.silu,
    "tanh": torch.tanh,
    "none": torch.positive,
}


def linear(
    inputs: int, outputs: int, bias: bool = True, parts: int = 1, kernel_size: int = 1
) -> nn.Linear:
    """A linear map with weights of Glorot and Bengio (2010, "xavier") and biases of zero.

    Args:
        inputs: channels C of its input.
        outputs: channels C' of its output.
        bias: whether there are biases.
        parts: how many maps lie on top of each other, each initialised as one (1).
        kernel_size: how many positions lie side by side in the input of a convolution, each of
            which is also read for so many outputs (1).
    """
    module = FastLinear(inputs, outputs, bias)
    bound = math.sqrt(6.0 / (inputs + kernel_size * outputs // parts))
    nn.init.uniform_(module.weight, -bound, bound)
    if bias:
        nn.init.zeros_(module.bias)
    return module


def layer_norm(channels: int) -> nn.LayerNorm:
    """Layer normalization with the epsilon of the original implementation."""
    return nn.LayerNorm(channels, NORM_EPS)


class Identity(nn.Module):
    """``id``."""

    def __init__(self, layer: LayerSpec):
        super().__init__()

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """x."""
        return x


class Dropout(dropout.Dropout):
    """``dropout``."""

    def __init__(self, layer: LayerSpec):
        super().__init__(layer["p"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """x with some numbers zero and the others scaled."""
        return super().forward(x)


class Linear(nn.Module):
    """``linear``: W x + b."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.linear = linear(layer.input_width, layer.width, layer["bias"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
        return self.linear(x)


class FeedForward(nn.Module):
    """``ff``: a linear map, a non-linearity, dropout."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        parts = 2 if layer["v"] == "glu" else 1
        self.linear = linear(layer.input_width, parts * layer.width, parts=parts)
        # Nobody else reads what the map gives, and fresh memory takes longer than ReLU.
        self.activation = torch.relu_ if layer["v"] == "relu" else ACTIVATIONS[layer["v"]]
        self.dropout = dropout.Dropout(layer["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
        return self.dropout(self.activation(self.linear(x)))


class Activation(nn.Module):
    """``act``: a non-linearity."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.activation = ACTIVATIONS[layer["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same."""
        return self.activation(x)


class Norm(nn.Module):
    """``norm``: layer normalization."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.norm = layer_norm(layer.input_width)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same."""
        return self.norm(x)
