"""Pervasive attention between embeddings and output layer (Elbayad et al. 2018, section 3)."""

from typing import NamedTuple

from torch import Tensor, nn

from ..decoding.state import State, child
from ..nn.dropout import Dropout
from ..nn.linear import Linear
from .aggregation import aggregator, precise
from .densenet import DenseNet2d
from .grid import Grid
from .grid_projection import first_features, target_projection


class GridFeatures(NamedTuple):
    """The last features of the grid, which alignments are made of.

    Attributes:
        cells: N x C, of the real cells.
        grid: where they are in R x T x S.
    """

    cells: Tensor
    grid: Grid


class PervasiveAttention(nn.Module):
    """Grid, DenseNet, aggregation over the source and a linear map.

    The source's share of the grid comes from outside: it is computed once a sentence.

    Args:
        source_dim, target_dim: channels d_s and d_t of what the grid is made of.
        num_layers: L (24).
        growth_rate: g (32).
        kernel_size: k, odd (5).
        bottleneck: channels after a layer's 1x1 convolution, in multiples of g (4).
        aggregator_name: ``max``, ``avg``, ``attn`` or ``max+attn`` (``max``).
        gated: gate the masked convolutions (False).
        conv_dropout: probability of dropping a layer's new features (0).
        output_dropout: probability of dropping an output (0).
        halve_input: a 1x1 convolution halves the 2d channels of the grid (True).
        transition: another one halves the DenseNet's features (True).
        project: map aggregated features to other channels (True).
        output_dim: how many, those of the target embedding; None for d_t.
        share_statistics: batch statistics are those of all workers (False).
    Raises:
        UserError: where a size or the aggregator's name cannot be.
    """

    def __init__(
        self,
        source_dim: int,
        target_dim: int,
        num_layers: int = 24,
        growth_rate: int = 32,
        kernel_size: int = 5,
        bottleneck: int = 4,
        aggregator_name: str = "max",
        gated: bool = False,
        conv_dropout: float = 0.0,
        output_dropout: float = 0.0,
        halve_input: bool = True,
        transition: bool = True,
        project: bool = True,
        output_dim: int | None = None,
        share_statistics: bool = False,
    ):
        super().__init__()
        self.target = target_projection(source_dim, target_dim, halve_input)
        self.dense = DenseNet2d(
            self.target.channels,
            num_layers,
            growth_rate,
            kernel_size,
            bottleneck,
            gated,
            conv_dropout,
            transition,
            share_statistics,
        )
        self.aggregator = aggregator(aggregator_name, self.dense.out_channels)
        self.out_channels = self.aggregator.out_channels
        self.output = None
        if project:
            self.out_channels = target_dim if output_dim is None else output_dim
            self.output = Linear(self.aggregator.out_channels, self.out_channels)
            nn.init.xavier_normal_(self.output.weight)
            nn.init.zeros_(self.output.bias)
        self.dropout = Dropout(output_dropout)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
        state: State | None = None,
    ) -> tuple[Tensor, GridFeatures]:
        """Features of each target position, from the source and this and earlier words.

        Args:
            source: B x S x C, the source's share of the grid (``grid_input.source_projection``).
            target: R x T x d_t, where R is a multiple of B: the rows of a beam follow each other
                and share their sentence; with a state, the T words that follow those already seen.
            source_padding: B x S, True at padding, or None.
            target_padding: R x T, True at padding, or None.
            state: what generation remembers; None in a full pass.
        Returns:
            R x T x ``out_channels``, and the grid's last features.
        """
        rows, steps, _ = target.shape
        grid = Grid(rows, steps, source.size(1), source_padding, target_padding)
        cells = first_features(source, self.target(target), grid)
        cells = self.dense(cells, grid, child(state, "dense"))
        features = self.aggregator(cells, grid)
        if self.output is not None:
            features = self.output(features)
        return self.dropout(features), GridFeatures(cells, grid)

    def alignment(self, features: GridFeatures, words: Tensor) -> Tensor:
        """Which source positions words come from (equations 7 and 8).

        Args:
            features: as ``forward`` gave them.
            words: R x T x ``out_channels``, the output layer's vector of a word at each target
                position.
        Returns:
            R x T x S, in single precision or better; rows sum to one, and padding has nothing. For
            the maximum, the softmax over the source of alpha of equation 7; for attention, rho of
            equation 8; for both, their mean.
        """
        directions = precise(words)
        if self.output is not None:
            directions = directions @ precise(self.output.weight)
        return self.aggregator.alignment(features.cells, features.grid, directions)
