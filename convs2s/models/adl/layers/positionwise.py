"""Layers of single positions (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ....nn.dropout import Dropout
from ....nn.linear import Linear, RectifiedLinear
from ....nn.normalization import RmsNorm
from ..context import Context
from ..language.layers.common import input_parts
from ..language.spec import LayerSpec
from .common import ACTIVATIONS, EPSILON, implements, xavier_linear


@implements("id")
class IdentityLayer(nn.Module):
    """``id``: x."""

    def __init__(self, spec: LayerSpec):
        super().__init__()

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Return x."""
        return x


@implements("dropout")
class DropoutLayer(nn.Module):
    """``dropout``."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.dropout = Dropout(spec["p"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Drop channels of x (B x T x C) at random and scale the others by 1 / (1 - p)."""
        return self.dropout(x)


@implements("act")
class ActivationLayer(nn.Module):
    """``act``: v(x)."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.activation = ACTIVATIONS[spec["v"]]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        return self.activation(x)


@implements("norm")
class NormLayer(nn.Module):
    """``norm``."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.norm = nn.LayerNorm(spec.input_width, spec["eps"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Normalize each position of x (B x T x C)."""
        return self.norm(x)


@implements("rms_norm")
class RmsNormLayer(nn.Module):
    """``rms_norm``: x / rms(x) g (Zhang and Sennrich 2019)."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.norm = RmsNorm(spec.input_width, EPSILON)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Normalize each position of x (B x T x C)."""
        return self.norm(x)


@implements("linear")
class LinearLayer(nn.Module):
    """``linear``: W x + b."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.linear = xavier_linear(spec.input_width, spec.width, spec["bias"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        return self.linear(x)


@implements("ff")
class FeedForwardLayer(nn.Module):
    """``ff``: dropout(v(W x + b))."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        parts = input_parts(spec["v"])
        rectified = spec["v"] == "relu"
        self.linear = xavier_linear(
            spec.input_width,
            parts * spec.width,
            parts=parts,
            module=RectifiedLinear if rectified else Linear,
        )
        self.activation = ACTIVATIONS["none" if rectified else spec["v"]]
        self.dropout = Dropout(spec["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C'."""
        return self.dropout(self.activation(self.linear(x)))
