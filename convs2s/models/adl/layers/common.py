"""Modules by name, and the parts that several layers share."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.linear import Linear
from ....nn.padding import select_columns
from ..language.registry import LayerType, entries

# The modules of the package's layers, by the name of the layer.
MODULES: dict[str, type[nn.Module]] = {}


def swiglu(x: Tensor) -> Tensor:
    """The second half of the channels, times the swish of the first (Shazeer 2020)."""
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


def geglu(x: Tensor) -> Tensor:
    """The second half of the channels, times the GELU of the first (Shazeer 2020)."""
    gate, value = x.chunk(2, dim=-1)
    return F.gelu(gate) * value


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "glu": F.glu,
    "swiglu": swiglu,
    "geglu": geglu,
    "gelu": F.gelu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "swish": F.silu,
    "tanh": torch.tanh,
    "none": torch.positive,
}
# The value of the original implementation; it is added to the variance.
EPSILON = 1e-6


def implements(*names: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """A decorator of the module of layers that ``language/layers`` declares.

    Args:
        names: names of the layers.
    Raises:
        ValueError: if a layer is not declared.
    """

    def decorator(cls: type[nn.Module]) -> type[nn.Module]:
        for name in names:
            if not isinstance(entries().get(name), LayerType):
                raise ValueError(f"There is no layer '{name}': declare it in language/layers.")
            MODULES[name] = cls
        return cls

    return decorator


def layer_norm(channels: int) -> nn.LayerNorm:
    """Layer normalization with the epsilon of the original implementation."""
    return nn.LayerNorm(channels, EPSILON)


def xavier_linear(
    inputs: int,
    outputs: int,
    bias: bool = True,
    parts: int = 1,
    kernel_size: int = 1,
    module: type[Linear] = Linear,
) -> Linear:
    """A linear map, initialized as in Glorot and Bengio (2010, "xavier"); biases are zero.

    Args:
        inputs: channels C of the input.
        outputs: channels C' of the output.
        bias: whether to add a bias (True).
        parts: the number of maps that are stacked in one matrix; each is initialized separately
            (1).
        kernel_size: the number of positions side by side in the input of a convolution (1). It
            counts toward the fan-out as well.
        module: class of the module (Linear).
    """
    built = module(inputs, outputs, bias)
    bound = math.sqrt(6.0 / (inputs + kernel_size * outputs // parts))
    nn.init.uniform_(built.weight, -bound, bound)
    if bias:
        nn.init.zeros_(built.bias)
    return built


def reverse(x: Tensor, padding_mask: Tensor | None, dim: int = 1) -> Tensor:
    """Reverse the tokens of each sentence; padding stays in its place.

    Args:
        x: B x S x C, or of any shape that starts with B.
        padding_mask: B x S, True at padding on the right; None if there is none.
        dim: the dimension of the tokens (1).
    """
    if padding_mask is None:
        return x.flip(dim)
    positions = torch.arange(x.size(dim), device=x.device)
    last = (~padding_mask).sum(dim=1, keepdim=True) - 1
    return select_columns(x, torch.where(padding_mask, positions, last - positions), dim)
