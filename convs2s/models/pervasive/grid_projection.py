"""The first features of the grid: target and source embeddings concatenated (equation 1).

A 1x1 convolution of a concatenation is the sum of a projection of each half. The projections are
computed once per target position and once per source position, and each cell adds two of them.
Plain concatenation is the same sum, with each half zero-padded to the full number of channels.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from ...nn.linear import Linear
from ..adl.language.spec import DECODER
from .grid import Grid
from .options import PervasiveOptions


class GridProjection(nn.Module):
    """The projection of one side's embeddings, one of the two terms of the grid's first features.

    That of the source embeddings x_j in [y_i x_j] is computed once per sentence. The bias of the
    1x1 convolution belongs to that of the target embeddings y_i.

    Args:
        side: ENCODER for the source embeddings, DECODER for those of the target.
        options: the options of the network.
        source_dim, target_dim: channels d_s and d_t of the embeddings.
    """

    def __init__(self, side: str, options: PervasiveOptions, source_dim: int, target_dim: int):
        super().__init__()
        is_target = side == DECODER
        # The channels of the other side, before or after those of this side.
        self.zeros = (0, source_dim) if is_target else (target_dim, 0)
        self.projection = None
        if not options.no_halving:
            channels = options.grid_channels(source_dim, target_dim)
            self.projection = Linear(target_dim if is_target else source_dim, channels, is_target)
            nn.init.normal_(self.projection.weight, std=(source_dim + target_dim) ** -0.5)
            if is_target:
                nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map B x T x d to B x T x C."""
        return F.pad(x, self.zeros) if self.projection is None else self.projection(x)


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
