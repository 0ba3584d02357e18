"""The identity (Domhan 2018, section 2.3)."""

from torch import Tensor, nn

from ..context import Context
from ..language.registry import POSITION, Cost, register_layer
from ..language.spec import LayerSpec


@register_layer("id", "its input (section 2.3)", reach=POSITION, cost=Cost())
class IdentityLayer(nn.Module):
    """``id``: x."""

    def __init__(self, spec: LayerSpec):
        super().__init__()

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Return x."""
        return x
