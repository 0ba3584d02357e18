"""Layers that tell a position its number."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.dropout import Dropout
from ...nn.embedding import check_length
from ..context import Context
from ..language.spec import LayerSpec

TABLE = 256


def sinusoids(positions: int, channels: int) -> Tensor:
    """sin(t / 10000^(2j/C)) in channel 2j and its cosine in channel 2j + 1 (section 2.3).

    Returns:
        positions x C, the first for t = 0.
    """
    exponents = torch.arange(0, channels, 2, dtype=torch.float64) / channels
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * 10000.0**-exponents
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """``pos``: dropout(sqrt(C) x + p)."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        root = math.sqrt(layer.input_width)
        self.word_scale, self.position_scale = (root, 1.0) if layer["scale"] else (1.0, 1.0 / root)
        self.dropout = Dropout(layer["dropout"])
        self.register_buffer("table", sinusoids(TABLE, layer.input_width), persistent=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same."""
        if context.longest > len(self.table):
            self.table = sinusoids(2 * context.longest, x.size(-1)).to(self.table)
        vectors = F.embedding(context.positions, self.table)
        if self.position_scale != 1.0:
            vectors = vectors * self.position_scale
        return self.dropout(x * self.word_scale + vectors.to(x.dtype))


class LearnedPositions(nn.Module):
    """``learn_pos``: dropout(x + a learned vector for each position)."""

    def __init__(self, layer: LayerSpec):
        super().__init__()
        settings, self.what = layer.settings, "target" if layer.in_decoder else "source"
        longest = getattr(settings, f"max_{self.what}_positions")
        self.weight = nn.Parameter(torch.empty(longest, layer.input_width))
        nn.init.normal_(self.weight, std=layer.input_width**-0.5)
        self.dropout = Dropout(layer["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """B x T x C to the same.

        Raises:
            UserError: where a sentence is longer than the options allow.
        """
        check_length(context.longest, len(self.weight), self.what)
        return self.dropout(x + F.embedding(context.positions, self.weight).to(x.dtype))
