"""Non-linearities: a layer of their own, and an argument of other layers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..context import Context
from ..language.arguments import Argument, Choice
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec

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


def activation_argument(
    default: str, help: str = "non-linearity", without: tuple[str, ...] = ()
) -> Argument:
    """The argument v of a layer with a non-linearity.

    Args:
        default: its default.
        help: one line for the list of layers.
        without: names of ACTIVATIONS that the layer does not offer.
    """
    names = tuple(name for name in ACTIVATIONS if name not in without)
    return Argument("v", Choice(names), default, help)


def input_parts(activation: str) -> int:
    """Input channels per output channel: a gated linear unit makes one of two."""
    return 2 if activation == "glu" else 1


@register_layer(
    "act",
    "a non-linearity (beyond the paper)",
    activation_argument("relu", "its name", without=("glu", "none")),
    reach=POSITION,
    cost=Cost(),
)
class ActivationLayer(nn.Module):
    """``act``: v(x)."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.activation = ACTIVATIONS[spec["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        return self.activation(x)
