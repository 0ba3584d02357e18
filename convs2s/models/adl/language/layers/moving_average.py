"""The damped exponential moving average of MEGA (beyond the paper)."""

from .....common.limits import MAX_WIDTH
from ..arguments import Argument, Integer
from ..registry import PAST, Cost, declare

declare(
    "ema",
    "several damped exponential moving averages of each channel, summed up (beyond the paper)",
    Argument("n", Integer(1, MAX_WIDTH), 16, "averages of each channel"),
    reach=PAST,
    cost=lambda spec: Cost(2 * spec["n"] * spec.input_width),
    parameters=lambda spec: 4 * spec["n"] * spec.input_width,
)
