"""The first features of the grid: source and target embeddings side by side (equation 1)."""

from torch import Tensor, nn
from torch.nn import functional as F

from .grid import Grid


class GridInput(nn.Module):
    """The concatenation [y_i x_j] of every cell, and the 1x1 convolution that halves it.

    A 1x1 convolution of a concatenation is the sum of one of each half: source and target
    positions are projected one by one, and the cells only add. The plain concatenation is the
    same sum, of the halves with zeros in the place of the other.

    Args:
        source_dim, target_dim: channels d_s and d_t of the embeddings.
        halve: project to (d_s + d_t) // 2 channels; concatenate only, otherwise (True).
    """

    def __init__(self, source_dim: int, target_dim: int, halve: bool = True):
        super().__init__()
        self.source_dim, self.target_dim = source_dim, target_dim
        both = source_dim + target_dim
        self.channels = both // 2 if halve else both
        self.source = self.target = None
        if halve:
            self.source = nn.Linear(source_dim, self.channels, bias=False)
            self.target = nn.Linear(target_dim, self.channels)
            for half in (self.source, self.target):
                nn.init.normal_(half.weight, std=both**-0.5)
            nn.init.zeros_(self.target.bias)

    def source_half(self, source: Tensor) -> Tensor:
        """The source's share, B x S x C of B x S x d_s; the same for all target positions."""
        if self.source is None:
            return F.pad(source, (self.target_dim, 0))
        return self.source(source)

    def forward(self, source_half: Tensor, target: Tensor, grid: Grid) -> Tensor:
        """The first features of the real cells.

        Args:
            source_half: B x S x C, what ``source_half`` gave; a beam shares that of its sentence.
            target: R x T x d_t.
            grid: R x T x S.
        Returns:
            N x C.
        """
        if self.target is None:
            target_half = F.pad(target, (0, self.source_dim))
        else:
            target_half = self.target(target)
        sentences, positions, channels = source_half.shape
        cells = target_half.reshape(sentences, -1, 1, channels) + source_half.unsqueeze(1)
        return grid.pack(cells.view(grid.rows, grid.steps, positions, channels))
