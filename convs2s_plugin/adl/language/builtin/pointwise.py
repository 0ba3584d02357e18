"""Layers that treat every position by itself, and sums and joins of chains."""

from ..arguments import Argument, Choice, Default, Flag, Integer, Real, Refusal, SubChain
from ..registry import POSITION, Cost, LayerType, register
from ..spec import MAX_WIDTH, LayerSpec

ACTIVATIONS = ("relu", "glu", "gelu", "sigmoid", "softplus", "swish", "tanh", "none")

CHAIN = Argument("chain", SubChain())
WIDTH = Argument(
    "d",
    Integer(1, MAX_WIDTH),
    Default(lambda layer: layer.settings.model_dim, "--model-dim"),
    "channels of the output",
)
PROBABILITY = Real(0, 1)
MODEL_DROPOUT = Default(lambda layer: layer.settings.dropout, "--dropout")
DROPOUT = Argument("dropout", PROBABILITY, MODEL_DROPOUT, "of channels of the output")


def activation(default: str) -> Argument:
    """The argument for the non-linearity after a projection."""
    return Argument("v", Choice(ACTIVATIONS), default, "non-linearity")


def given_width(layer: LayerSpec) -> int:
    """Channels of the output as the argument d says."""
    return layer["d"]


def fan_out(layer: LayerSpec) -> int:
    """Channels before the non-linearity: a gated linear unit makes one of two."""
    return layer["d"] * (2 if layer["v"] == "glu" else 1)


def none(layer: LayerSpec) -> int:
    """A layer without parameters."""
    return 0


def free(layer: LayerSpec) -> Cost:
    """A layer without matrix products."""
    return Cost()


def check_sum(layer: LayerSpec) -> None:
    """The chain must give as many channels as it takes, so that the two can be added."""
    width, chain = layer.input_width, layer.chains[0]
    if chain[-1].width != width:
        culprit = [part for part in chain if part.width != part.input_width][-1]
        raise Refusal(
            f"'{layer.name}' adds what its chain gives to what the chain takes, but "
            f"'{culprit.name}' gives {culprit.width} channels and {width} go in: make the two "
            f"equal, for example by ending the chain with 'linear({width})'",
            place=culprit.place,
        )


def check_pairs(layer: LayerSpec) -> None:
    if layer.input_width % 2:
        raise Refusal(
            f"'{layer.name}' adds pairs of sine and cosine, so that its input must have an even "
            f"number of channels, but it has {layer.input_width}"
        )


def learned_positions(layer: LayerSpec) -> int:
    settings = layer.settings
    longest = settings.max_target_positions if layer.in_decoder else settings.max_source_positions
    return longest * layer.input_width


register(
    LayerType(
        "id",
        "its input (section 2.3)",
        (),
        POSITION,
        "..layers.pointwise:Identity",
        parameters=none,
        cost=free,
    )
)
register(
    LayerType(
        "dropout",
        "dropout (section 2.3)",
        (Argument("p", PROBABILITY, MODEL_DROPOUT, "probability of dropping a channel"),),
        POSITION,
        "..layers.pointwise:Dropout",
        parameters=none,
        cost=free,
    )
)
register(
    LayerType(
        "pos",
        "adds sines and cosines of the position to sqrt(C) times its input, then dropout (2.3)",
        (
            DROPOUT,
            Argument("scale", Flag(), True, "false: the positions are divided by sqrt(C) instead"),
        ),
        POSITION,
        "..layers.positions:SinusoidalPositions",
        check=check_pairs,
        parameters=none,
        cost=free,
    )
)
register(
    LayerType(
        "learn_pos",
        "adds a learned vector for each position, then dropout (beyond the paper)",
        (DROPOUT,),
        POSITION,
        "..layers.positions:LearnedPositions",
        parameters=learned_positions,
        cost=free,
    )
)
register(
    LayerType(
        "linear",
        "a linear projection (section 2.3)",
        (WIDTH, Argument("bias", Flag(), True, "whether a bias is added")),
        POSITION,
        "..layers.pointwise:Linear",
        width=given_width,
        parameters=lambda layer: (layer.input_width + layer["bias"]) * layer["d"],
        cost=lambda layer: Cost(layer.input_width * layer["d"]),
    )
)
register(
    LayerType(
        "ff",
        "a linear projection, a non-linearity, dropout (section 2.3)",
        (WIDTH, activation("relu"), DROPOUT),
        POSITION,
        "..layers.pointwise:FeedForward",
        width=given_width,
        parameters=lambda layer: (layer.input_width + 1) * fan_out(layer),
        cost=lambda layer: Cost(layer.input_width * fan_out(layer)),
    )
)
register(
    LayerType(
        "act",
        "a non-linearity (beyond the paper)",
        (
            Argument(
                "v",
                Choice(tuple(word for word in ACTIVATIONS if word not in ("glu", "none"))),
                "relu",
                "which one",
            ),
        ),
        POSITION,
        "..layers.pointwise:Activation",
        parameters=none,
        cost=free,
    )
)
register(
    LayerType(
        "norm",
        "layer normalization with learned scale and shift (section 2.3)",
        (),
        POSITION,
        "..layers.pointwise:Norm",
        parameters=lambda layer: 2 * layer.input_width,
        cost=free,
    )
)
register(
    LayerType(
        "res",
        "the sum of its input and of what a chain makes of it (section 2.3)",
        (CHAIN,),
        POSITION,
        "..layers.chains:Residual",
        check=check_sum,
        parameters=none,
        cost=free,
    )
)
register(
    LayerType(
        "highway",
        "g x + (1 - g) chain(x) with a learned gate g = sigmoid(W x + b) (beyond the paper)",
        (CHAIN,),
        POSITION,
        "..layers.chains:Highway",
        check=check_sum,
        parameters=lambda layer: (layer.input_width + 1) * layer.input_width,
        cost=lambda layer: Cost(layer.input_width**2),
    )
)
register(
    LayerType(
        "concat",
        "what several chains make of the same input, side by side (section 2.3)",
        (Argument("chains", SubChain(many=True)),),
        POSITION,
        "..layers.chains:Concat",
        width=lambda layer: sum(chain[-1].width for chain in layer.chains),
        parameters=none,
        cost=free,
    )
)
