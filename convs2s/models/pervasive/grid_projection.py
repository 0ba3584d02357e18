"""The first features of the grid: target and source embeddings concatenated (equation 1).

A 1x1 convolution of a concatenation is the sum of a projection of each half. The projections are
computed once per target position and once per source position, and each cell adds two of them.
Plain concatenation is the same sum, with each half zero-padded to the full number of channels.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.linear import Linear
from .grid import Grid
from .options import PervasiveOptions


class GridProjection(nn.Module):
    """The projection of one side's embeddings, one of the two terms of the grid's first features.

    Args:
        dim: channels of this side's embeddings.
        zeros_before, zeros_after: channels of the other side's, before or after this side's in
            the concatenation.
        channels: C, channels of the grid's first features.
        halving: whether a 1x1 convolution halves the channels of the concatenation.
        bias: whether the bias of that convolution belongs to this side.
    """

    def __init__(
        self,
        dim: int,
        zeros_before: int,
        zeros_after: int,
        channels: int,
        halving: bool,
        bias: bool,
    ):
        super().__init__()
        self.zeros = zeros_before, zeros_after
        self.projection = None
        if halving:
            self.projection = Linear(dim, channels, bias)
            nn.init.normal_(self.projection.weight, std=(zeros_before + dim + zeros_after) ** -0.5)
            if bias:
                nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map B x T x ``dim`` to B x T x C."""
        return F.pad(x, self.zeros) if self.projection is None else self.projection(x)


def source_projection(
    options: PervasiveOptions, source_dim: int, target_dim: int
) -> GridProjection:
    """The projection of source embeddings x_j in [y_i x_j], computed once per sentence."""
    return GridProjection(
        source_dim,
        zeros_before=target_dim,
        zeros_after=0,
        channels=options.grid_channels(source_dim, target_dim),
        halving=not options.no_halving,
        bias=False,
    )


def target_projection(
    options: PervasiveOptions, source_dim: int, target_dim: int
) -> GridProjection:
    """The projection of target embeddings y_i in [y_i x_j]."""
    return GridProjection(
        target_dim,
        zeros_before=0,
        zeros_after=source_dim,
        channels=options.grid_channels(source_dim, target_dim),
        halving=not options.no_halving,
        bias=True,
    )


def first_features(source: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """The first features of the real cells, N x C.

    Args:
        source: B x S x C, the source projection; the hypotheses of a beam share their sentence's.
        target: R x T x C, the target projection.
        grid: R x T x S.
    """
    batch_size, source_len, channels = source.shape
    x = target.reshape(batch_size, -1, 1, channels) + source.unsqueeze(1)
    return grid.pack(x.view(grid.rows, grid.target_len, source_len, channels))
