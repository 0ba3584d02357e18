"""Layers that add an embedding of each position to its channels."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....nn.dropout import Dropout
from ....nn.embedding import check_length, look_up
from ....nn.int8 import quantize_parameter_
from ....nn.uninitialized import computed
from ..context import Context
from ..language.spec import LayerSpec
from .common import implements

INITIAL_POSITIONS = 256


def sinusoids(positions: int, channels: int) -> Tensor:
    """sin(t / 10000^(2j/C)) in channel 2j and its cosine in channel 2j + 1 (section 2.3).

    Returns:
        positions x C, the first row for t = 0.
    """
    return sinusoids_of(torch.arange(positions), channels).float()


def sinusoids_of(positions: Tensor, channels: int) -> Tensor:
    """As ``sinusoids``, of any positions, in double precision."""
    exponents = torch.arange(0, channels, 2, dtype=torch.float64, device=positions.device)
    angles = positions.unsqueeze(-1) * 10000.0 ** -(exponents / channels)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class SinusoidTable(nn.Module):
    """Sinusoids of all positions, in a table that grows.

    Args:
        channels: C.
    """

    table: Tensor

    def __init__(self, channels: int):
        super().__init__()
        table = computed(lambda: sinusoids(INITIAL_POSITIONS, channels))
        self.register_buffer("table", table, persistent=False)

    def look_up(self, context: Context) -> Tensor:
        """The sinusoids of the positions of a pass, T x C or B x T x C."""
        if isinstance(context.longest, torch.SymInt):
            # In a graph, whose sentences have any length.
            return sinusoids_of(context.positions, self.table.size(1)).to(self.table.dtype)
        # Another thread may replace the table with a smaller one at any time.
        table = self.table
        if context.longest > len(table):
            self.table = table = sinusoids(2 * context.longest, table.size(1)).to(table)
        return F.embedding(context.positions, table)


@implements("pos")
class SinusoidalPositionsLayer(SinusoidTable):
    """``pos``: dropout(sqrt(C) x + p)."""

    def __init__(self, spec: LayerSpec):
        super().__init__(spec.input_width)
        root = math.sqrt(spec.input_width)
        self.input_scale, self.position_scale = (root, 1.0) if spec["scale"] else (1.0, 1.0 / root)
        self.dropout = Dropout(spec["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C."""
        vectors = self.look_up(context)
        if self.position_scale != 1.0:
            vectors = vectors * self.position_scale
        return self.dropout(x * self.input_scale + vectors.to(x.dtype))


@implements("learn_pos")
class LearnedPositionsLayer(nn.Module):
    """``learn_pos``: dropout(x + a learned vector for each position), or of sqrt(C) x."""

    def __init__(self, spec: LayerSpec):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(spec.max_positions, spec.input_width))
        nn.init.normal_(self.weight, std=spec.input_width**-0.5)
        self.input_scale = math.sqrt(spec.input_width) if spec["scale"] else 1.0
        self.dropout = Dropout(spec["dropout"])

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """Map B x T x C to B x T x C.

        Raises:
            SequenceTooLong: if a sentence is longer than the options allow.
        """
        check_length(context.longest, len(self.weight))
        if self.input_scale != 1.0:
            x = x * self.input_scale
        return self.dropout(x + look_up(self.weight, context.positions).to(x.dtype))

    def quantize_weights_(self) -> None:
        """Replace the vectors with vectors in 8 bits, for inference."""
        quantize_parameter_(self)
