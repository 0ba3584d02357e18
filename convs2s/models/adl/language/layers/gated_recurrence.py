"""Gated linear recurrences, whose gates depend on the input alone (beyond the paper)."""

from ..registry import PAST, Cost, declare
from ..spec import LayerSpec
from .common import GATED, KERNEL, WIDTH, activation_argument, given_width


def _declare(name: str, summary: str, gates: int, biased: int) -> None:
    """Declare a layer with a matrix for each gate and for the candidate.

    Args:
        name, summary: name and summary of the layer.
        gates: the number of gates.
        biased: the number of matrices with a bias.
    """
    declare(
        name,
        f"{summary} (beyond the paper)",
        WIDTH,
        reach=PAST,
        width=given_width,
        cost=lambda spec: Cost((gates + 1) * spec.input_width * spec["d"]),
        parameters=lambda spec: ((gates + 1) * spec.input_width + biased) * spec["d"],
        parallel=False,
    )


def rg_lru_parameters(spec: LayerSpec) -> int:
    """Two matrices with biases, and a decay for each channel."""
    return 2 * (spec.input_width + 1) * spec.input_width + spec.input_width


declare(
    "qrnn",
    "a quasi-recurrent layer: causal convolution, then a gated sum over the past "
    "(beyond the paper)",
    WIDTH,
    KERNEL,
    activation_argument("tanh", "non-linearity of the candidate", without=GATED),
    reach=PAST,
    width=given_width,
    cost=lambda spec: Cost(spec["k"] * spec.input_width * 2 * spec["d"]),
    parameters=lambda spec: (spec["k"] * spec.input_width + 1) * 2 * spec["d"],
    parallel=False,
)
_declare("ssru", "a simpler simple recurrent unit: one gate, then a rectifier", 1, 1)
_declare("min_gru", "a minimal GRU: one gate", 1, 2)
_declare("min_lstm", "a minimal LSTM: input and forget gates that sum to one", 2, 3)
declare(
    "rg_lru",
    "a real-gated linear recurrent unit: each channel has its own decay, which gates shorten "
    "(beyond the paper)",
    reach=PAST,
    cost=lambda spec: Cost(2 * spec.input_width * spec.input_width),
    parameters=rg_lru_parameters,
    parallel=False,
)
