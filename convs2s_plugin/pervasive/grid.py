"""The grid of target and source positions, and the list of its real cells."""

from torch import Tensor


class Grid:
    """Which cells of R x T x S are real; the real ones in one list are N cells.

    What is computed cell by cell is computed on the list, so that padding takes no time and no
    part in any statistic; only convolutions and aggregations see the grid itself.

    Args:
        rows, steps, positions: R hypotheses (or sentences), T and S.
        source_padding: B x S, True at padding, or None; R is a multiple of B, and the rows of a
            beam follow each other and share the source of their sentence.
        target_padding: R x T, True at padding, or None.
    """

    def __init__(
        self,
        rows: int,
        steps: int,
        positions: int,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
    ):
        self.rows, self.steps, self.positions = rows, steps, positions
        self.source_padding: Tensor | None = None
        self.index: Tensor | None = None
        absent = None
        if source_padding is not None and bool(source_padding.any()):
            self.source_padding = source_padding.repeat_interleave(
                rows // len(source_padding), dim=0
            )
            absent = self.source_padding.unsqueeze(1).expand(-1, steps, -1)
        if target_padding is not None and bool(target_padding.any()):
            rest = target_padding.unsqueeze(2)
            absent = rest.expand(-1, -1, positions) if absent is None else absent | rest
        if absent is not None:
            self.index = (~absent).reshape(-1).nonzero().squeeze(1)

    def pack(self, x: Tensor) -> Tensor:
        """The real cells of R x T x S x C: N x C."""
        cells = x.reshape(-1, x.size(-1))
        return cells if self.index is None else cells.index_select(0, self.index)

    def unpack(self, cells: Tensor) -> Tensor:
        """N x C back on the grid, R x T x S x C, with zeros at padding."""
        shape = (self.rows, self.steps, self.positions, cells.size(-1))
        if self.index is None:
            return cells.view(shape)
        flat = cells.new_zeros(self.rows * self.steps * self.positions, cells.size(-1))
        return flat.index_copy(0, self.index, cells).view(shape)

    def source_lengths(self, like: Tensor) -> Tensor:
        """R x 1 x 1, the number |s| of real source positions, in the type of ``like``."""
        if self.source_padding is None:
            return like.new_full((self.rows, 1, 1), self.positions)
        return (~self.source_padding).sum(dim=1).to(like.dtype).view(-1, 1, 1)
