"""The grid of target and source positions, and the list of its real cells."""

import torch
from torch import Tensor


class Grid:
    """The R x T x S cells of a batch, N of which are real, that is, not padding.

    Operations on single cells run on a list of the real cells, N x C. Padding then costs no time
    and is part of no batch statistics. Only convolutions and aggregators need the full grid. In a
    graph of ``torch.export`` or ``torch.compile``, which is one for all batches, the list has all
    cells.

    Args:
        rows: R, hypotheses (or sentences).
        target_len: T.
        source_len: S.
        source_padding: B x S, True at padding, or None. R is a multiple of B: the hypotheses of a
            beam are consecutive and share the source of their sentence.
        target_padding: R x T, True at padding, or None.
    """

    def __init__(
        self,
        rows: int,
        target_len: int,
        source_len: int,
        source_padding: Tensor | None = None,
        target_padding: Tensor | None = None,
    ):
        self.rows, self.target_len, self.source_len = rows, target_len, source_len
        # R x S, True at padding, or None.
        self.source_padding: Tensor | None = None
        # N, the indices of the listed cells in the flattened grid, or None if all are listed.
        self.real_cells: Tensor | None = None
        # R x T x S, True at listed cells that are padding, or None.
        self.listed_padding: Tensor | None = None
        padding = None
        if source_padding is not None:
            of_rows = source_padding.new_zeros(rows).view(source_padding.size(0), -1, 1)
            source_padding = (source_padding.unsqueeze(1) | of_rows).flatten(0, 1)
            padding = source_padding.unsqueeze(1)
        if target_padding is not None:
            target_cells = target_padding.unsqueeze(2)
            padding = target_cells if padding is None else padding | target_cells
        if padding is None:
            return
        padding = padding.expand(-1, target_len, source_len)
        if torch.compiler.is_compiling():
            self.source_padding, self.listed_padding = source_padding, padding
            return
        # The only read from the device.
        real_cells = (~padding).reshape(-1).nonzero().squeeze(1)
        if len(real_cells) < padding.numel():
            self.source_padding, self.real_cells = source_padding, real_cells

    def pack(self, x: Tensor) -> Tensor:
        """List the cells: R x T x S x C to N x C."""
        cells = x.reshape(-1, x.size(-1))
        return cells if self.real_cells is None else cells.index_select(0, self.real_cells)

    def unpack(self, cells: Tensor) -> Tensor:
        """Put N x C back on the grid, R x T x S x C, with zeros at padding."""
        shape = (self.rows, self.target_len, self.source_len, cells.size(-1))
        if self.listed_padding is not None:
            return cells.view(shape).masked_fill(self.listed_padding.unsqueeze(3), 0.0)
        if self.real_cells is None:
            return cells.view(shape)
        flat = cells.new_zeros(self.rows * self.target_len * self.source_len, cells.size(-1))
        return flat.index_copy(0, self.real_cells, cells).view(shape)

    def source_lengths(self, like: Tensor) -> Tensor:
        """R x 1 x 1, the number |s| of real source positions, in the type of ``like``."""
        if self.source_padding is None:
            return like.new_full((self.rows, 1, 1), self.source_len)
        return (~self.source_padding).sum(dim=1).to(like.dtype).view(-1, 1, 1)
