"""Reduction of the grid over the source positions (section 3), and the alignments it implies.

An aggregator also aligns each target token with the source. With the maximum and the average, the
alignment follows from the contribution of each source position to the token's logit (equation 7
for the maximum); with attention, it consists of the attention weights (equation 8).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ...nn.linear import single_precision
from ...nn.softmax import masked_softmax
from .grid import Grid


class Aggregator(nn.Module):
    """A reduction of the grid over the source positions.

    Args:
        out_channels: channels of the aggregated features.

    Attributes:
        name: its name in the option ``--aggregator``.
        description: the aggregator in words, with its equation.
    """

    name: str
    description: str

    def __init__(self, out_channels: int):
        super().__init__()
        self.out_channels = out_channels

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """Reduce N x C to R x T x ``out_channels``."""
        raise NotImplementedError

    def contributions(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """The contribution of each source position to the logit of a token.

        Args:
            cells: N x C, of ``grid``.
            token_weights: R x T x ``out_channels``, the weights of the aggregated features in the
                logit of one token at each target position.
        Returns:
            R x T x S, in single precision or better.
        """
        raise NotImplementedError

    def alignment(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """The softmax of the contributions over the source positions, R x T x S."""
        return _masked_softmax(self.contributions(cells, grid, token_weights), grid)

    def split(self, token_weights: Tensor) -> list[tuple["Aggregator", Tensor]]:
        """The aggregators that this one consists of, each with its own weights of the token."""
        return [(self, token_weights)]


class MaxAggregator(Aggregator):
    """The maximum over the source positions (equation 2).

    Args:
        out_channels: C, those of the cells.
    """

    name = "max"
    description = "maximum (equation 7)"

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """Reduce N x C to R x T x C."""
        return self._maximum(cells, grid)[0]

    def contributions(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """alpha of equation 7."""
        values, indices = self._maximum(cells, grid)
        products = single_precision(values) * token_weights
        alpha = products.new_zeros(grid.rows, grid.target_len, grid.source_len)
        return alpha.scatter_add_(2, indices, products)

    @staticmethod
    def _maximum(cells: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        """The maxima and their source positions, R x T x C each."""
        x = grid.unpack(cells)
        if grid.source_padding is not None:
            x = x.masked_fill(grid.source_padding[:, None, :, None], -math.inf)
        values, indices = x.max(dim=2)
        return values, indices


class AverageAggregator(Aggregator):
    """The sum over the source positions, divided by sqrt(|s|) (equation 3).

    Args:
        out_channels: C, those of the cells.
    """

    name = "avg"
    description = "average (equation 3)"

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """Reduce N x C to R x T x C."""
        total = grid.unpack(cells).sum(dim=2)
        return total / grid.source_lengths(total).sqrt()

    def contributions(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """The terms of the average, each times the weights of the token."""
        products = single_precision(grid.unpack(cells)) @ token_weights.unsqueeze(-1)
        return products.squeeze(-1) / grid.source_lengths(products).sqrt()


class AttentionAggregator(Aggregator):
    """The sum over the source positions with attention weights, times sqrt(|s|) (equation 9).

    Args:
        channels: C of the cells.
        exponent: power of |s| to multiply by (0.5, the square root).
    """

    name = "attn"
    description = "attention (equation 8)"

    def __init__(self, channels: int, exponent: float = 0.5):
        super().__init__(channels)
        self.exponent = exponent
        self.scores = nn.Linear(channels, 1)
        nn.init.normal_(self.scores.weight, std=channels**-0.5)
        nn.init.zeros_(self.scores.bias)

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """Reduce N x C to R x T x C."""
        rho = self.weights(cells, grid).to(cells.dtype)
        context = (rho.unsqueeze(2) @ grid.unpack(cells)).squeeze(2)
        return context * grid.source_lengths(context).pow(self.exponent)

    def weights(self, cells: Tensor, grid: Grid) -> Tensor:
        """The attention weights (rho, equation 8), R x T x S, in single precision or better."""
        return _masked_softmax(grid.unpack(self.scores(cells)).squeeze(-1), grid)

    def contributions(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """The terms of equation 9, each times the weights of the token."""
        products = single_precision(grid.unpack(cells)) @ token_weights.unsqueeze(-1)
        weighted = products.squeeze(-1) * self.weights(cells, grid)
        return weighted * grid.source_lengths(weighted).pow(self.exponent)

    def alignment(self, cells: Tensor, grid: Grid, token_weights: Tensor) -> Tensor:
        """The attention weights, which do not depend on the token."""
        return self.weights(cells, grid)


class JointAggregator(Aggregator):
    """The concatenation of several aggregators ([Max, Attn] in Table 1).

    Args:
        parts: the aggregators.
    """

    def __init__(self, parts: list[Aggregator]):
        super().__init__(sum(part.out_channels for part in parts))
        self.parts = nn.ModuleList(parts)

    def forward(self, cells: Tensor, grid: Grid) -> Tensor:
        """Reduce N x C to R x T x ``out_channels``."""
        return torch.cat([part(cells, grid) for part in self.parts], dim=-1)

    def split(self, token_weights: Tensor) -> list[tuple[Aggregator, Tensor]]:
        """Each part with its own weights of the token."""
        parts = cast(list[Aggregator], list(self.parts))
        return list(zip(parts, token_weights.split([part.out_channels for part in parts], dim=-1)))


def build_aggregator(name: str, channels: int, attention_exponent: float = 0.5) -> Aggregator:
    """The aggregator of a name, such as ``max`` or ``max+attn``.

    Args:
        name: one of ``options.AGGREGATORS``.
        channels: C of the cells.
        attention_exponent: see ``AttentionAggregator`` (0.5).
    """
    build: dict[str, Callable[[int], Aggregator]] = {
        "max": MaxAggregator,
        "avg": AverageAggregator,
        "attn": partial(AttentionAggregator, exponent=attention_exponent),
    }
    parts = [build[part](channels) for part in name.split("+")]
    return parts[0] if len(parts) == 1 else JointAggregator(parts)


def _masked_softmax(scores: Tensor, grid: Grid) -> Tensor:
    """The softmax over the real source positions, R x T x S, in single precision or better."""
    padding = grid.source_padding
    return masked_softmax(scores, None if padding is None else ~padding.unsqueeze(1))
