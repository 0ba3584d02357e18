"""The convolution of the language (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ...nn.unfold import conv1d
from ..context import Context
from ..language.spec import LayerSpec
from .pointwise import ACTIVATIONS, linear


class Convolution(nn.Module):
    """``cnn``: v(W [h_(t-k+1); ...; h_t] + b), or centred on t; zeros beyond the ends."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        self.kernel_size, self.dilation = layer["k"], layer["dilation"]
        self.causal = layer["padding"] == "causal"
        parts = 2 if layer["v"] == "glu" else 1
        self.linear = linear(
            self.kernel_size * layer.input_width,
            parts * layer.width,
            parts=parts,
            kernel_size=self.kernel_size,
        )
        self.activation = ACTIVATIONS[layer["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to B x T x C'."""
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
