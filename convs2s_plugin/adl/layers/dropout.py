"""Dropout (Domhan 2018, section 2.3)."""

from torch import Tensor

from ...nn.dropout import Dropout
from ..context import Context
from ..language.arguments import Argument
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec
from .common import MODEL_DROPOUT, PROBABILITY


@register_layer(
    "dropout",
    "dropout (section 2.3)",
    Argument("p", PROBABILITY, MODEL_DROPOUT, "probability of dropping a channel"),
    reach=POSITION,
    cost=Cost(),
)
class DropoutLayer(Dropout):
    """``dropout``."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec["p"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Drop channels of x (B x T x C) at random and scale the others by 1 / (1 - p)."""
        return super().forward(x)
