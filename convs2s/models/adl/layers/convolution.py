"""Convolution (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ....nn.unfold import conv1d
from ..context import Context
from ..language.arguments import Argument, Choice, Default, Integer, LayerError
from ..language.registry import Cost, Reach, register_layer, register_unsupported
from ..language.spec import LayerSpec
from .activation import ACTIVATIONS, activation_argument, input_parts
from .common import KERNEL, WIDTH, given_width, xavier_linear

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
    span = (spec["k"] - 1) * spec["dilation"]
    left = span if spec["padding"] == "causal" else span // 2
    return Reach(left, span - left)


def check_span(spec: LayerSpec) -> None:
    span = sum(convolution_reach(spec)) + 1
    if span > MAX_SPAN:
        raise LayerError(f"this 'cnn' spans {span} positions, more than {MAX_SPAN}", "dilation")


@register_layer(
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
)
class ConvolutionLayer(nn.Module):
    """``cnn``: v(W [x_(t-k+1); ...; x_t] + b), or centered on t; zeros beyond the ends."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.kernel_size, self.dilation = spec["k"], spec["dilation"]
        self.causal = spec["padding"] == "causal"
        parts = input_parts(spec["v"])
        self.linear = xavier_linear(
            self.kernel_size * spec.input_width,
            parts * spec.width,
            parts=parts,
            kernel_size=self.kernel_size,
        )
        self.activation = ACTIVATIONS[spec["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        if context.padding_mask is not None:
            x = x.masked_fill(context.padding_mask.unsqueeze(-1), 0.0)
        out = conv1d(
            x,
            self.linear.weight,
            self.linear.bias,
            self.kernel_size,
            self.dilation,
            self.causal,
            context.layer_state(self),
        )
        return self.activation(out)


register_unsupported(
    "pool",
    "'pool' is not offered: it would change the number of source positions, so that attention "
    "and alignments would no longer point to tokens",
)
