"""From the grid to the target: aggregation of the features over the source (section 3).

Each aggregator also says what each source position contributes to a word's score: the score of
word w is the sum over j of these contributions, in the case of the maximum those of equation 7.
"""

import math
from typing import List, Optional

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
        """alpha of equation 7, R x T x S.

        Args:
            directions: R x T x C, the row of E of the word in question at each target position.
        """
        values, indices = self._maximum(cells, grid)
        alpha = values.new_zeros(grid.rows, grid.steps, grid.positions)
        return alpha.scatter_add(2, indices, values * directions.to(values.dtype))

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
        """What each source position adds to the scores of words, R x T x S."""
        return _products(grid.unpack(cells), directions) / grid.source_lengths(cells).sqrt()


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
        scores = grid.unpack(self.scores(cells)).squeeze(-1)
        if scores.dtype in (torch.float16, torch.bfloat16):
            scores = scores.float()
        if grid.source_padding is not None:
            scores = scores.masked_fill(grid.source_padding.unsqueeze(1), -math.inf)
        return scores.softmax(dim=-1)

    def contributions(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """What each source position adds to the scores of words, R x T x S."""
        rho = self.weights(cells, grid)
        products = _products(grid.unpack(cells), directions)
        return rho * products * grid.source_lengths(rho).sqrt()


class JointAggregator(nn.Module):
    """Several aggregations side by side ([Max, Attn] of table 1).

    Args:
        parts: the aggregators.
    """

    def __init__(self, parts: List[nn.Module]):
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.out_channels = sum(part.out_channels for part in parts)

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """R x T x (sum of C) of N x C."""
        return torch.cat([part(cells, grid) for part in self.parts], dim=-1)

    def contributions(self, cells: Tensor, grid: Grid, directions: Tensor) -> Tensor:
        """What each source position adds to the scores of words in all parts, R x T x S."""
        shares = directions.split([part.out_channels for part in self.parts], dim=-1)
        return sum(
            part.contributions(cells, grid, share) for part, share in zip(self.parts, shares)
        )


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


def attention_weights(module: nn.Module, cells: Tensor, grid: Grid) -> Optional[Tensor]:
    """rho of equation 8 where an aggregator attends, R x T x S; None where it does not."""
    for part in module.modules():
        if isinstance(part, AttentionAggregator):
            return part.weights(cells, grid)
    return None


def _products(x: Tensor, directions: Tensor) -> Tensor:
    return (x @ directions.to(x.dtype).unsqueeze(-1)).squeeze(-1)
