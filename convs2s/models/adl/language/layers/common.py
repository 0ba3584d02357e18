"""Arguments that several layers share."""

from .....common.limits import MAX_KERNEL_SIZE, MAX_WIDTH
from ..arguments import Argument, Choice, Integer, Probability, setting_default
from ..spec import LayerSpec

PROBABILITY = Probability()
DROPOUT = Argument(
    "dropout",
    PROBABILITY,
    setting_default("dropout"),
    "probability of dropping a channel of the output",
)
WIDTH = Argument("d", Integer(1, MAX_WIDTH), setting_default("model_dim"), "channels of the output")
KERNEL = Argument("k", Integer(1, MAX_KERNEL_SIZE), 3, "positions that an output sees")

# Each of the gated ones makes one channel from two.
GATED = ("glu", "swiglu", "geglu")
ACTIVATIONS = ("relu", *GATED, "gelu", "sigmoid", "softplus", "swish", "tanh", "none")


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
    """Input channels per output channel: a gated linear unit makes one from two."""
    return 2 if activation in GATED else 1


def given_width(spec: LayerSpec) -> int:
    """The output channels that the argument d gives."""
    return spec["d"]
