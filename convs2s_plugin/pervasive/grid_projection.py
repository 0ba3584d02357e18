"""The first features of the grid: target and source embeddings side by side (equation 1).

A 1x1 convolution of a concatenation is the sum of one of each half: target and source positions
are projected one by one, and the cells only add. The plain concatenation is the same sum, of the
halves with zeros in the place of the other.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from .grid import Grid


class GridProjection(nn.Module):
    """What one side adds to the first features of the grid, position by position.

    Args:
        dim: channels of the side's embeddings.
        before, after: channels of the other side's, in whichever place they stand.
        halve: project the concatenation to half of its channels; concatenate only, otherwise.
        bias: whether this side brings the projection's bias.
    """

    def __init__(self, dim: int, before: int, after: int, halve: bool, bias: bool):
        super().__init__()
        self.margins = before, after
        both = before + dim + after
        self.channels = both // 2 if halve else both
        self.projection = None
        if halve:
            self.projection = nn.Linear(dim, self.channels, bias)
            nn.init.normal_(self.projection.weight, std=both**-0.5)
            if bias:
                nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """B x T x C of B x T x ``dim``."""
        return F.pad(x, self.margins) if self.projection is None else self.projection(x)


def source_projection(source_dim: int, target_dim: int, halve: bool = True) -> GridProjection:
    """The source's share of the concatenation [y_i x_j], the same for all target positions.

    Args:
        source_dim, target_dim: channels d_s and d_t of the embeddings.
        halve: whether a 1x1 convolution halves their sum (True).
    """
    return GridProjection(source_dim, before=target_dim, after=0, halve=halve, bias=False)


def target_projection(source_dim: int, target_dim: int, halve: bool = True) -> GridProjection:
    """The target's share; arguments as those of ``source_projection``."""
    return GridProjection(target_dim, before=0, after=source_dim, halve=halve, bias=True)


def first_features(source: Tensor, target: Tensor, grid: Grid) -> Tensor:
    """The features of the real cells, N x C.

    Args:
        source: B x S x C, the source's share; the hypotheses of a beam have that of their sentence.
        target: R x T x C, the target's.
        grid: R x T x S.
    """
    sentences, positions, channels = source.shape
    cells = target.reshape(sentences, -1, 1, channels) + source.unsqueeze(1)
    return grid.pack(cells.view(grid.rows, grid.steps, positions, channels))
