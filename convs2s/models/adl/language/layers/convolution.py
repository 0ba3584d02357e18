"""Convolution (Domhan 2018, section 2.3)."""

from ..arguments import Argument, Choice, Default, Integer, LayerError
from ..registry import Cost, Reach, declare, register_unsupported
from ..spec import LayerSpec
from .common import KERNEL, WIDTH, activation_argument, given_width, input_parts

MAX_DILATION = 1024
MAX_SPAN = 4096

DILATION = Argument(
    "dilation", Integer(1, MAX_DILATION), 1, "distance between the positions that an output sees"
)
PADDING = Argument(
    "padding",
    Choice(("centred", "causal")),
    Default(
        lambda spec: "causal" if spec.in_decoder else "centred",
        "centred in an encoder, causal in a decoder",
    ),
    "causal: an output sees no position to its right",
)


def convolution_reach(spec: LayerSpec) -> Reach:
    span = (spec["k"] - 1) * spec.arguments.get("dilation", 1)
    left = span if spec["padding"] == "causal" else span // 2
    return Reach(left, span - left)


def check_span(spec: LayerSpec) -> None:
    span = sum(convolution_reach(spec)) + 1
    if span > MAX_SPAN:
        raise LayerError(f"this 'cnn' spans {span} positions, more than {MAX_SPAN}", "dilation")


declare(
    "cnn",
    "a convolution with bias and non-linearity (section 2.3)",
    activation_argument("relu"),
    KERNEL,
    WIDTH,
    DILATION,
    PADDING,
    reach=convolution_reach,
    width=given_width,
    check=check_span,
    cost=lambda spec: Cost(spec["k"] * spec.input_width * input_parts(spec["v"]) * spec["d"]),
    parameters=lambda spec: (spec["k"] * spec.input_width + 1) * input_parts(spec["v"]) * spec["d"],
)
register_unsupported(
    "pool",
    "'pool' is not offered: it would change the number of source positions, so attention and "
    "alignments would no longer point to tokens",
)
