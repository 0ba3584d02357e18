"""Convolution (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ....nn.conv1d import conv1d
from ..context import Context
from ..language.layers.common import input_parts
from ..language.spec import LayerSpec
from .common import ACTIVATIONS, implements, xavier_linear


@implements("cnn")
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
