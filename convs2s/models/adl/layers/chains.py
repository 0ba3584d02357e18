"""Chains of layers, and layers that contain chains (Domhan 2018, section 2.3)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..context import Context
from ..language.registry import layer_type
from ..language.spec import LayerSpec
from .common import MODULES, implements, xavier_linear


def build_layer(spec: LayerSpec) -> nn.Module:
    """Build the module of one layer, with the chains inside it."""
    module = layer_type(spec).module or MODULES[spec.name]
    return module(spec)


class LayerChain(nn.ModuleList):
    """Layers that run one after the other.

    Args:
        specs: the resolved layers.
    """

    def __init__(self, specs: Iterable[LayerSpec]):
        super().__init__(map(build_layer, specs))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        for layer in self:
            x = layer(x, context)
        return x


@implements("res")
class ResidualLayer(nn.Module):
    """``res``: x + chain(x), in the precision of x."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chain = LayerChain(spec.chains[0])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        # Under autocast, matrix multiplications have outputs of low precision; the sum has not.
        return x + self.chain(x, context).to(x.dtype)


@implements("highway")
class HighwayLayer(nn.Module):
    """``highway``: g x + (1 - g) chain(x), g = sigmoid(W x + b)."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chain = LayerChain(spec.chains[0])
        self.gate = xavier_linear(spec.input_width, spec.input_width)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        gate = self.gate(x).to(x.dtype).sigmoid()
        return torch.lerp(self.chain(x, context).to(x.dtype), x, gate)


@implements("concat")
class ConcatLayer(nn.Module):
    """``concat``: the outputs of several chains, concatenated."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chains = nn.ModuleList(map(LayerChain, spec.chains))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x (C1 + ... + Cp)."""
        return torch.cat([chain(x, context).to(x.dtype) for chain in self.chains], dim=-1)


@implements("sum")
class SumLayer(nn.Module):
    """``sum``: the sum of the outputs of several chains."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chains = nn.ModuleList(map(LayerChain, spec.chains))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        first, *others = self.chains
        total = first(x, context).to(x.dtype)
        for chain in others:
            total = total + chain(x, context).to(x.dtype)
        return total
