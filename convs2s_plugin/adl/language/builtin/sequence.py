"""Layers along the sentence: convolutions and recurrent networks."""

from ..arguments import Argument, Choice, Default, Integer, Real, Refusal
from ..registry import PAST, SENTENCE, Cost, LayerType, Reach, refuse_name, register
from ..spec import LayerSpec
from .pointwise import ACTIVATIONS, WIDTH, activation, fan_out, given_width

MAX_KERNEL = 1023
MAX_DILATION = 1024
MAX_SPAN = 4096
CELLS = ("lstm", "gru", "lnlstm", "lngru")

CELL = Argument("cell", Choice(CELLS), "lstm", "ln...: with layer normalization inside")
FORGET = Argument(
    "forget_bias", Real(-100, 100), 0.0, "first value of the forget gate's bias (lstm cells)"
)
KERNEL = Argument("k", Integer(1, MAX_KERNEL), 3, "positions that an output sees")


def cnn_reach(layer: LayerSpec) -> Reach:
    span = (layer["k"] - 1) * layer["dilation"]
    left = span if layer["padding"] == "causal" else span // 2
    return Reach(left, span - left)


def check_span(layer: LayerSpec) -> None:
    span = sum(cnn_reach(layer)) + 1
    if span > MAX_SPAN:
        raise Refusal(f"this 'cnn' spans {span} positions, more than {MAX_SPAN}", "dilation")


def cell_weights(cell: str, inputs: int, outputs: int) -> int:
    gates = 3 if cell.endswith("gru") else 4
    return gates * outputs * (inputs + outputs)


def cell_parameters(cell: str, inputs: int, outputs: int) -> int:
    """Two biases a gate; where gates are normalized, two gains and two shifts in their place."""
    vectors = {"lstm": 8, "gru": 6, "lnlstm": 16 + 2, "lngru": 12}[cell]
    return cell_weights(cell, inputs, outputs) + vectors * outputs


def check_cell(layer: LayerSpec) -> None:
    if layer["forget_bias"] and not layer["cell"].endswith("lstm"):
        raise Refusal(f"a '{layer['cell']}' cell has no forget gate", "forget_bias")


def check_halves(layer: LayerSpec) -> None:
    check_cell(layer)
    if layer["d"] % 2:
        raise Refusal(
            f"'birnn' gives each direction half of its channels, so that their number must be "
            f"even, but it is {layer['d']}",
            "d",
        )


register(
    LayerType(
        "cnn",
        "a convolution with bias and non-linearity (section 2.3)",
        (
            activation("relu"),
            KERNEL,
            WIDTH,
            Argument("dilation", Integer(1, MAX_DILATION), 1, "distance of the positions it sees"),
            Argument(
                "padding",
                Choice(("centred", "causal")),
                Default(
                    lambda layer: "causal" if layer.in_decoder else "centred",
                    "centred in an encoder, causal in a decoder",
                ),
                "causal: nothing to the right is seen",
            ),
        ),
        cnn_reach,
        "..layers.convolution:Convolution",
        width=given_width,
        check=check_span,
        parameters=lambda layer: (layer["k"] * layer.input_width + 1) * fan_out(layer),
        cost=lambda layer: Cost(layer["k"] * layer.input_width * fan_out(layer)),
    )
)
register(
    LayerType(
        "qrnn",
        "a quasi-recurrent layer: causal convolution, then a gated sum over the past "
        "(beyond the paper)",
        (
            WIDTH,
            KERNEL,
            Argument(
                "v",
                Choice(tuple(w for w in ACTIVATIONS if w != "glu")),
                "tanh",
                "non-linearity of the candidate",
            ),
        ),
        PAST,
        "..layers.recurrent:QuasiRecurrent",
        width=given_width,
        parameters=lambda layer: (layer["k"] * layer.input_width + 1) * 2 * layer["d"],
        cost=lambda layer: Cost(layer["k"] * layer.input_width * 2 * layer["d"]),
        parallel=False,
    )
)
register(
    LayerType(
        "rnn",
        "a recurrent network from left to right (section 2.3)",
        (CELL, WIDTH, FORGET),
        PAST,
        "..layers.recurrent:Recurrent",
        width=given_width,
        check=check_cell,
        parameters=lambda layer: cell_parameters(layer["cell"], layer.input_width, layer["d"]),
        cost=lambda layer: Cost(cell_weights(layer["cell"], layer.input_width, layer["d"])),
        parallel=False,
    )
)
register(
    LayerType(
        "birnn",
        "recurrent networks in both directions, d/2 channels each, joined (section 2.3); only in "
        "an encoder",
        (CELL, WIDTH, FORGET),
        SENTENCE,
        "..layers.recurrent:BidirectionalRecurrent",
        width=given_width,
        check=check_halves,
        parameters=lambda layer: (
            2 * cell_parameters(layer["cell"], layer.input_width, layer["d"] // 2)
        ),
        cost=lambda layer: Cost(
            2 * cell_weights(layer["cell"], layer.input_width, layer["d"] // 2)
        ),
        parallel=False,
    )
)
refuse_name(
    "pool",
    "'pool' is not offered: it would change the number of source positions, so that attention "
    "and alignments would no longer point to words",
)
