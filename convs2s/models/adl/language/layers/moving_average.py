"""The damped exponential moving average of MEGA (beyond the paper)."""

from .....common.limits import MAX_WIDTH
from ..arguments import Argument, Integer
from ..registry import PAST, Cost, declare
from ..spec import LayerSpec

# Most positions in a chunk: longer ones have more pairs, shorter ones more averages.
CHUNK = 64


NUMBER = Argument("n", Integer(1, MAX_WIDTH), 16, "averages of each channel")


def averages_cost(spec: LayerSpec) -> Cost:
    """The cost of the averages of all channels."""
    averages = 2 * spec["n"] * spec.input_width
    return Cost(averages, chunk=CHUNK, chunk_pair=spec.input_width, state=averages)


def averages_parameters(spec: LayerSpec) -> int:
    """The four numbers of each average."""
    parameters: int = 4 * spec["n"] * spec.input_width
    return parameters


declare(
    "ema",
    "several damped exponential moving averages of each channel, summed up (beyond the paper)",
    NUMBER,
    reach=PAST,
    cost=averages_cost,
    parameters=averages_parameters,
)
