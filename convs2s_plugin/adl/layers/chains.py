"""Chains of layers, and the layers that are made of chains."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..context import Context
from ..language.registry import layer_type
from ..language.spec import LayerSpec
from .pointwise import linear


class Chain(nn.ModuleList):
    """One layer after the other.

    Args:
        layers: resolved layers of a recipe.
    """

    def __init__(self, layers: Iterable[LayerSpec]):
        super().__init__(layer_type(layer).module_class()(layer) for layer in layers)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
        for layer in self:
            x = layer(x, context)
        return x


class Residual(nn.Module):
    """``res``: x + chain(x), in the precision of x."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.chain = Chain(layer.chains[0])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same."""
        # Under autocast a product's output is of low precision; the sum is not.
        return x + self.chain(x, context).to(x.dtype)


class Highway(nn.Module):
    """``highway``: g x + (1 - g) chain(x), g = sigmoid(W x + b)."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.chain = Chain(layer.chains[0])
        self.gate = linear(layer.input_width, layer.input_width)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same."""
        gate = self.gate(x).to(x.dtype).sigmoid()
        return torch.lerp(self.chain(x, context).to(x.dtype), x, gate)


class Concat(nn.Module):
    """``concat``: what several chains make of x, side by side."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.chains = nn.ModuleList(map(Chain, layer.chains))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x (C1 + ... + Cp)."""
        return torch.cat([chain(x, context).to(x.dtype) for chain in self.chains], dim=-1)
