"""Chains of layers, and layers that contain chains (Domhan 2018, section 2.3)."""

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..context import Context
from ..language.registry import layer_type
from ..language.spec import LayerSpec
from .common import MODULES, implements, reverse, xavier_linear


def build_layer(spec: LayerSpec) -> nn.Module:
    """Build the module of one layer, with the chains inside it."""
    module = layer_type(spec).module or MODULES[spec.name]
    return module(spec)


def share_weights_(layers: nn.Module) -> None:
    """Let each ``share`` without weights refer to the one in the same layers that has them."""
    shares = [layer for layer in layers.modules() if isinstance(layer, SharedLayer)]
    owners = {layer.name: layer for layer in shares if layer.chain is not None}
    for layer in shares:
        if layer.chain is None and layer.name in owners:
            layer.first = (owners[layer.name],)


class LayerChain(nn.ModuleList):
    """Layers that run one after the other.

    Args:
        specs: the resolved layers.
    """

    def __init__(self, specs: Iterable[LayerSpec]):
        super().__init__(map(build_layer, specs))
        share_weights_(self)

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
        # Under autocast, matrix multiplications have outputs of low precision; the sum does not.
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


@implements("bi")
class BidirectionalLayer(nn.Module):
    """``bi``: a chain from each end of the sentence."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.forwards, self.backwards = map(LayerChain, spec.chains)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x S x C to B x S x C'; padding is on the right."""
        mask = context.padding_mask
        forwards = self.forwards(x, context).to(x.dtype)
        backwards_context = replace(context, attention=[])
        backwards = self.backwards(reverse(x, mask), backwards_context).to(x.dtype)
        for found in backwards_context.attention:
            # Queries and keys, both in the order of the sentence.
            weights = reverse(reverse(found.weights, mask, 2), mask, 3)
            context.attention.append(found._replace(weights=weights))
        return torch.cat([forwards, reverse(backwards, mask)], dim=-1)


@implements("share")
class SharedLayer(nn.Module):
    """``share``: a chain whose weights several layers share, each with its own state.

    The first one has the chain; the others refer to it, so a state dict has the weights once.
    """

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.name = spec["name"]
        self.chain = LayerChain(spec.chains[0]) if spec.owns_weights else None
        # In a tuple, it is not registered as a part.
        self.first: tuple[SharedLayer, ...] = ()

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        if context.state is not None:
            context = replace(context, state=context.layer_state(self))
        chain = self.first[0].chain if self.chain is None else self.chain
        assert chain is not None
        return chain(x, context)
