"""Dropout (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ....nn.dropout import Dropout
from ..context import Context
from ..language.arguments import Argument, setting_default
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec
from .common import PROBABILITY


@register_layer(
    "dropout",
    "dropout (section 2.3)",
    Argument("p", PROBABILITY, setting_default("dropout"), "probability of dropping a channel"),
    reach=POSITION,
    cost=Cost(),
)
class DropoutLayer(nn.Module):
    """``dropout``."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.dropout = Dropout(spec["p"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Drop channels of x (B x T x C) at random and scale the others by 1 / (1 - p)."""
        return self.dropout(x)
