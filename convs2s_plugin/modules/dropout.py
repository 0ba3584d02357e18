"""Dropout that can be kept at inference."""

from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Dropout in training, and at inference where ``always`` has been set.

    Args:
        p: probability of dropping a number.
    """

    def __init__(self, p: float):
        super().__init__()
        self.p = p
        self.always = False

    def forward(self, x: Tensor) -> Tensor:
        """x with some numbers zero and the others scaled by 1 / (1 - p)."""
        return F.dropout(x, self.p, self.training or self.always)

    def extra_repr(self) -> str:
        return f"{self.p}, always={self.always}"
