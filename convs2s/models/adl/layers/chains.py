"""Chains of layers, and layers that contain chains (Domhan 2018, section 2.3)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..context import Context
from ..language.arguments import CHAIN, Argument, LayerError, SubChain
from ..language.registry import POSITION, Cost, layer_type, register_layer
from ..language.spec import LayerSpec
from .common import xavier_linear


def build_layer(spec: LayerSpec) -> nn.Module:
    """Build the module of one layer, with the chains inside it."""
    return layer_type(spec).module(spec)


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


def check_same_width(spec: LayerSpec) -> None:
    """The output of the chain must be as wide as its input, so that the two can be added."""
    width, chain = spec.input_width, spec.chains[0]
    if chain[-1].width != width:
        culprit = [layer for layer in chain if layer.width != layer.input_width][-1]
        raise LayerError(
            f"'{spec.name}' adds the input and the output of its chain, but the input has {width} "
            f"channels and '{culprit.name}' outputs {culprit.width}: make the two equal, for "
            f"example by ending the chain with 'linear({width})'",
            place=culprit.place,
        )


@register_layer(
    "res",
    "the sum of its input and the output of a chain (section 2.3)",
    CHAIN,
    reach=POSITION,
    check=check_same_width,
    cost=Cost(),
)
class ResidualLayer(nn.Module):
    """``res``: x + chain(x), in the precision of x."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chain = LayerChain(spec.chains[0])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        # Under autocast, matrix multiplications have outputs of low precision; the sum has not.
        return x + self.chain(x, context).to(x.dtype)


@register_layer(
    "highway",
    "g x + (1 - g) chain(x) with a learned gate g = sigmoid(W x + b) (beyond the paper)",
    CHAIN,
    reach=POSITION,
    check=check_same_width,
    cost=lambda spec: Cost(spec.input_width**2),
)
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


@register_layer(
    "concat",
    "the outputs of several chains for the same input, concatenated (section 2.3)",
    Argument("chains", SubChain(many=True)),
    reach=POSITION,
    width=lambda spec: sum(chain[-1].width for chain in spec.chains),
    cost=Cost(),
)
class ConcatLayer(nn.Module):
    """``concat``: the outputs of several chains, concatenated."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.chains = nn.ModuleList(map(LayerChain, spec.chains))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x (C1 + ... + Cp)."""
        return torch.cat([chain(x, context).to(x.dtype) for chain in self.chains], dim=-1)
