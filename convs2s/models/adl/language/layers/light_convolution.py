"""Lightweight and dynamic convolutions (Wu et al. 2019; beyond the paper)."""

from ..arguments import LayerError
from ..registry import Cost, declare
from ..spec import LayerSpec
from .attention import HEADS, WEIGHT_DROPOUT
from .common import KERNEL
from .convolution import PADDING, convolution_reach


def check_heads(spec: LayerSpec) -> None:
    if spec.input_width % spec["h"]:
        raise LayerError(
            f"the {spec['h']} heads of '{spec.name}' (h) must divide the {spec.input_width} "
            "channels of its input",
            "h",
        )


def weights(spec: LayerSpec) -> int:
    """The weights of all heads at a position."""
    width: int = spec["h"] * spec["k"]
    return width


declare(
    "light_conv",
    "a weighted mean of neighboring positions, with learned weights for each head (beyond the "
    "paper)",
    KERNEL,
    HEADS,
    PADDING,
    WEIGHT_DROPOUT,
    reach=convolution_reach,
    check=check_heads,
    cost=lambda spec: Cost(spec["k"] * spec.input_width),
    parameters=weights,
)
declare(
    "dynamic_conv",
    "a weighted mean of neighboring positions, with weights for each head that the position "
    "computes (beyond the paper)",
    KERNEL,
    HEADS,
    PADDING,
    WEIGHT_DROPOUT,
    reach=convolution_reach,
    check=check_heads,
    cost=lambda spec: Cost((weights(spec) + spec["k"]) * spec.input_width),
    parameters=lambda spec: weights(spec) * spec.input_width,
)
