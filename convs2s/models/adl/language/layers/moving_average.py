"""The damped exponential moving average of MEGA (beyond the paper)."""

from .....common.limits import MAX_WIDTH
from ..arguments import Argument, Integer
from ..registry import PAST, Cost, declare
from ..spec import LayerSpec

# Positions in a chunk, at most: longer ones have more pairs, shorter ones more averages.
CHUNK = 64


def cost(spec: LayerSpec) -> Cost:
    averages = 2 * spec["n"] * spec.input_width
    return Cost(averages, spec.input_width, chunk=CHUNK, state=averages)


declare(
    "ema",
    "several damped exponential moving averages of each channel, summed up (beyond the paper)",
    Argument("n", Integer(1, MAX_WIDTH), 16, "averages of each channel"),
    reach=PAST,
    cost=cost,
    parameters=lambda spec: 4 * spec["n"] * spec.input_width,
)
