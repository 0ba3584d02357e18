"""Layers that contain chains (Domhan 2018, section 2.3)."""

from ..arguments import CHAIN, Argument, LayerError, LetName, SubChain
from ..registry import POSITION, UNBOUNDED, Cost, Reach, declare, receptive_field
from ..spec import LayerSpec


def check_same_width(spec: LayerSpec) -> None:
    """The output of the chain must be as wide as its input, so that the two can be added."""
    width, chain = spec.input_width, spec.chains[0]
    if chain[-1].width != width:
        culprit = [layer for layer in chain if layer.width != layer.input_width][-1]
        raise LayerError(
            f"'{spec.name}' adds the input and the output of its chain, but the input has {width} "
            f"channels and '{culprit.name}' outputs {culprit.width}: make the two equal, for "
            f"example by ending the chain with 'linear({width})'",
            place=culprit.place,
        )


def check_equal_widths(spec: LayerSpec) -> None:
    """The outputs of all chains must be equally wide, so that they can be added."""
    widths = [chain[-1].width for chain in spec.chains]
    for chain in spec.chains[1:]:
        if chain[-1].width != widths[0]:
            raise LayerError(
                f"'{spec.name}' adds the outputs of its chains, but the first has {widths[0]} "
                f"channels and '{chain[-1].name}' outputs {chain[-1].width}: make them equal, for "
                f"example by ending this chain with 'linear({widths[0]})'",
                place=chain[-1].place,
            )


def check_encoder(spec: LayerSpec) -> None:
    if spec.in_decoder:
        raise LayerError(
            f"'{spec.name}' reads the sentence from its end, but a decoder must not see the tokens "
            "that it still has to predict"
        )


def both_directions(spec: LayerSpec) -> Reach:
    """The receptive field with the reversed copy of a chain: as far to one side as to the other."""
    chain = receptive_field(spec.chains[0])
    far = max(chain)
    return Reach(*(far if far == UNBOUNDED else int(far - each) for each in chain))


declare(
    "res",
    "the sum of its input and the output of a chain (section 2.3)",
    CHAIN,
    reach=POSITION,
    check=check_same_width,
    cost=Cost(),
    parameters=0,
)
declare(
    "highway",
    "g x + (1 - g) chain(x) with a learned gate g = sigmoid(W x + b) (beyond the paper)",
    CHAIN,
    reach=POSITION,
    check=check_same_width,
    cost=lambda spec: Cost(spec.input_width**2),
    parameters=lambda spec: (spec.input_width + 1) * spec.input_width,
)
declare(
    "concat",
    "the outputs of several chains for the same input, concatenated (section 2.3)",
    Argument("chains", SubChain(many=True)),
    reach=POSITION,
    width=lambda spec: sum(chain[-1].width for chain in spec.chains),
    cost=Cost(),
    parameters=0,
)
declare(
    "sum",
    "the sum of the outputs of several chains for the same input (beyond the paper)",
    Argument("chains", SubChain(many=True)),
    reach=POSITION,
    width=lambda spec: spec.chains[0][-1].width,
    check=check_equal_widths,
    cost=Cost(),
    parameters=0,
)
declare(
    "bi",
    "a chain from left to right and a second copy from right to left, concatenated (beyond the "
    "paper); only in an encoder",
    CHAIN,
    reach=both_directions,
    width=lambda spec: sum(chain[-1].width for chain in spec.chains),
    check=check_encoder,
    cost=Cost(),
    parameters=0,
    copies=2,
)
declare(
    "share",
    "the chain of a `let`, with the same weights wherever it is shared (beyond the paper)",
    Argument("name", LetName(), help="name of the chain"),
    reach=POSITION,
    width=lambda spec: spec.chains[0][-1].width,
    cost=Cost(),
    parameters=0,
)
