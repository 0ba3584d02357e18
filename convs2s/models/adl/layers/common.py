"""Arguments and initial weights that several layers share."""

import math

from torch import nn

from ....common.limits import MAX_WIDTH
from ....nn.linear import Linear
from ..language.arguments import Argument, Integer, Real, setting_default
from ..language.spec import LayerSpec

MAX_KERNEL = 1023

PROBABILITY = Real(0, 1)
DROPOUT = Argument(
    "dropout",
    PROBABILITY,
    setting_default("dropout"),
    "probability of dropping a channel of the output",
)
WIDTH = Argument("d", Integer(1, MAX_WIDTH), setting_default("model_dim"), "channels of the output")
KERNEL = Argument("k", Integer(1, MAX_KERNEL), 3, "positions that an output sees")


def given_width(spec: LayerSpec) -> int:
    """The output channels that the argument d gives."""
    return spec["d"]


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
        parts: the number of maps that are stacked in one matrix; each is initialized by itself
            (1).
        kernel_size: the number of positions that lie side by side in the input of a convolution
            (1). Their number counts for the fan-out as well.
        module: class of the module (Linear).
    """
    built = module(inputs, outputs, bias)
    bound = math.sqrt(6.0 / (inputs + kernel_size * outputs // parts))
    nn.init.uniform_(built.weight, -bound, bound)
    if bias:
        nn.init.zeros_(built.bias)
    return built
