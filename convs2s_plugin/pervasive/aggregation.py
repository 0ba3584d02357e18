"""From the grid to the target: aggregation of the features over the source (section 3).

Each aggregator also says which source positions a word's score comes from: the shares of the
score (equation 7 in the case of the maximum), or the attention's weights (equation 8).
"""

import math

import torch
from torch import Tensor, nn

from ..errors import UserError
from .grid import Grid


class MaxAggregator(nn.Module):
    """The maximum over the source (equation 2).

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.out_channels = channels

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """R x T x C of N x C."""
        return self._maximum(cells, grid).values

    def contributions(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """alpha of equation 7, R x T x S, in single precision or better.

        Args:
            cells: N x C, of ``grid``.
            directions: R x T x C, the row of E of a word at each target position.
        """
        values, indices = self._maximum(cells, grid)
        shares = precise(values) * directions
        alpha = shares.new_zeros(grid.rows, grid.steps, grid.positions)
        return alpha.scatter_add_(2, indices, shares)

    def alignment(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """The softmax of the contributions over the source, R x T x S."""
        return _softmax(self.contributions(cells, grid, directions), grid)

    @staticmethod
    def _maximum(cells: Tensor, grid: Grid):
        x = grid.unpack(cells)
        if grid.source_padding is not None:
            x = x.masked_fill(grid.source_padding[:, None, :, None], -math.inf)
        return x.max(dim=2)


class AverageAggregator(nn.Module):
    """The sum over the source divided by sqrt(|s|) (equation 3).

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.out_channels = channels

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """R x T x C of N x C."""
        total = grid.unpack(cells).sum(dim=2)
        return total / grid.source_lengths(total).sqrt()

    def contributions(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """What each source position adds to a score, as ``MaxAggregator.contributions``."""
        products = precise(grid.unpack(cells)) @ directions.unsqueeze(-1)
        return products.squeeze(-1) / grid.source_lengths(products).sqrt()

    def alignment(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """The softmax of the contributions over the source, R x T x S."""
        return _softmax(self.contributions(cells, grid, directions), grid)


class AttentionAggregator(nn.Module):
    """A weighted sum over the source, times sqrt(|s|) (equations 8 and 9).

    Args:
        channels: C.
    """

    def __init__(self, channels: int):
        super().__init__()
        self.out_channels = channels
        self.scores = nn.Linear(channels, 1)
        nn.init.normal_(self.scores.weight, std=channels**-0.5)
        nn.init.zeros_(self.scores.bias)

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """R x T x C of N x C."""
        rho = self.weights(cells, grid).to(cells.dtype)
        context = (rho.unsqueeze(2) @ grid.unpack(cells)).squeeze(2)
        return context * grid.source_lengths(context).sqrt()

    def weights(self, cells: Tensor, grid: Grid) -> Tensor:
        """rho of equation 8, R x T x S, in single precision or better."""
        return _softmax(grid.unpack(self.scores(cells)).squeeze(-1), grid)

    def alignment(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """rho, whatever the word is."""
        return self.weights(cells, grid)


class JointAggregator(nn.Module):
    """Several aggregations side by side ([Max, Attn] of table 1).

    Args:
        parts: the aggregators.
    """

    def __init__(self, parts: list[nn.Module]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.out_channels = sum(part.out_channels for part in parts)

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """R x T x (sum of C) of N x C."""
        return torch.cat([part(cells, grid) for part in self.parts], dim=-1)

    def alignment(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """The mean of the parts' alignments, R x T x S."""
        shares = directions.split([part.out_channels for part in self.parts], dim=-1)
        alignments = [part.alignment(cells, grid, share) for part, share in zip(self.parts, shares)]
        return sum(alignments) / len(alignments)


AGGREGATORS = {
    "max": (MaxAggregator,),
    "avg": (AverageAggregator,),
    "attn": (AttentionAggregator,),
    "max+attn": (MaxAggregator, AttentionAggregator),
}


def aggregator(name: str, channels: int) -> nn.Module:
    """The aggregator called ``name``.

    Args:
        name: ``max``, ``avg``, ``attn`` or ``max+attn``.
        channels: C.
    Raises:
        UserError: where there is none of that name.
    """
    if name not in AGGREGATORS:
        raise UserError(f"There is no aggregator '{name}'; there are {', '.join(AGGREGATORS)}.")
    parts = [part(channels) for part in AGGREGATORS[name]]
    return parts[0] if len(parts) == 1 else JointAggregator(parts)


def precise(x: Tensor) -> Tensor:
    """x in single precision or better."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _softmax(scores: Tensor, grid: Grid) -> Tensor:
    """Over the source, never over padding: R x T x S, in single precision or better."""
    scores = precise(scores)
    if grid.source_padding is not None:
        scores = scores.masked_fill(grid.source_padding.unsqueeze(1), -math.inf)
    return scores.softmax(dim=-1)
