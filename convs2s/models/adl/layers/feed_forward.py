"""Linear maps of each position (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ....nn.dropout import Dropout
from ....nn.linear import Linear, RectifiedLinear
from ..context import Context
from ..language.arguments import Argument, Flag
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec
from .activation import ACTIVATIONS, activation_argument, input_parts
from .common import DROPOUT, WIDTH, given_width, xavier_linear


@register_layer(
    "linear",
    "a linear projection (section 2.3)",
    WIDTH,
    Argument("bias", Flag(), True, "whether to add a bias"),
    reach=POSITION,
    width=given_width,
    cost=lambda spec: Cost(spec.input_width * spec["d"]),
)
class LinearLayer(nn.Module):
    """``linear``: W x + b."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.linear = xavier_linear(spec.input_width, spec.width, spec["bias"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        return self.linear(x)


@register_layer(
    "ff",
    "a linear projection, a non-linearity, dropout (section 2.3)",
    WIDTH,
    activation_argument("relu"),
    DROPOUT,
    reach=POSITION,
    width=given_width,
    cost=lambda spec: Cost(spec.input_width * input_parts(spec["v"]) * spec["d"]),
)
class FeedForwardLayer(nn.Module):
    """``ff``: dropout(v(W x + b))."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        parts = input_parts(spec["v"])
        rectified = spec["v"] == "relu"
        self.linear = xavier_linear(
            *(spec.input_width, parts * spec.width),
            parts=parts,
            module=RectifiedLinear if rectified else Linear,
        )
        self.activation = ACTIVATIONS["none" if rectified else spec["v"]]
        self.dropout = Dropout(spec["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        return self.dropout(self.activation(self.linear(x)))
