"""Layer normalization (Domhan 2018, section 2.3; Ba et al. 2016)."""

from torch import Tensor, nn

from ..context import Context
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec

# The value of the original implementation; it is added to the variance.
EPSILON = 1e-6


def layer_norm(channels: int) -> nn.LayerNorm:
    """Layer normalization with the epsilon of the original implementation."""
    return nn.LayerNorm(channels, EPSILON)


@register_layer(
    "norm",
    "layer normalization with learned scale and shift (section 2.3)",
    reach=POSITION,
    cost=Cost(),
)
class NormLayer(nn.Module):
    """``norm``."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.norm = layer_norm(spec.input_width)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Normalize each position of x (B x T x C)."""
        return self.norm(x)
