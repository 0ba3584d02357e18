"""Layers that add an embedding of each position to its channels."""

from ..arguments import Argument, Flag, LayerError
from ..registry import POSITION, Cost, declare
from ..spec import LayerSpec
from .common import DROPOUT


def check_even(spec: LayerSpec) -> None:
    if spec.input_width % 2:
        raise LayerError(
            f"'{spec.name}' adds pairs of sine and cosine, so its input must have an even number "
            f"of channels, but it has {spec.input_width}"
        )


declare(
    "pos",
    "adds sines and cosines of the position to sqrt(C) times its input, then dropout (2.3)",
    DROPOUT,
    Argument(
        "scale",
        Flag(),
        True,
        "false: scale the sines by 1 / sqrt(C) instead of the input",
    ),
    reach=POSITION,
    check=check_even,
    cost=Cost(),
    parameters=0,
)
declare(
    "learn_pos",
    "adds a learned vector for each position, then dropout (beyond the paper)",
    DROPOUT,
    Argument("scale", Flag(), False, "true: adds it to sqrt(C) times the input"),
    reach=POSITION,
    cost=Cost(),
    parameters=lambda spec: spec.max_positions * spec.input_width,
)
