"""What a pass must know of its padding, and an order of columns in which it follows the tokens."""

from typing import NamedTuple

import torch
from torch import Tensor

from ..common.errors import EmptySequence


class PaddingOrder(NamedTuple):
    """A column order that moves padding to the right and keeps the order of tokens.

    Attributes:
        order: B x T, the old column of each new one; None if no column moves.
        inverse: B x T, the new column of each old one; None if no column moves.
        lengths: B, the number of tokens in each sentence.
        padding_mask: B x T, True at padding in the new order; None if there is no padding.
        num_columns: T.
        longest, shortest: the largest and the smallest number of tokens in a sentence.
    """

    order: Tensor | None
    inverse: Tensor | None
    lengths: Tensor
    padding_mask: Tensor | None
    num_columns: int
    longest: int
    shortest: int

    def apply(self, tokens: Tensor) -> Tensor:
        """Bring tokens B x T to the new order."""
        return tokens if self.order is None else tokens.gather(1, self.order)

    def restore(self, x: Tensor, dim: int = 1) -> Tensor:
        """Bring a dimension of T columns from the new order back to the old one.

        Args:
            x: B x T x C, or of any shape that starts with B.
            dim: the dimension of the columns (1).
        """
        return select_columns(x, self.inverse, dim)

    def positions(self) -> tuple[Tensor, int]:
        """Position numbers of the new columns.

        Returns:
            T numbers from 0, and the length of the longest sentence. Columns that are padding in
            all sentences have the number of the last token.
        """
        columns = torch.arange(self.num_columns, device=self.lengths.device)
        return columns.clamp(max=max(0, self.longest - 1)), self.longest


def select_columns(x: Tensor, columns: Tensor | None, dim: int) -> Tensor:
    """Reorder one dimension of x, in each sentence in its own way.

    Args:
        x: R x ..., where R is a multiple of B: consecutive rows share a sentence.
        columns: B x T, for each new column its index along ``dim``; None to change nothing.
        dim: the dimension, of size T.
    """
    if columns is None:
        return x
    if dim == 1:
        # Whole vectors are several times as fast as single numbers.
        rows, size = x.shape[:2]
        firsts = torch.arange(0, rows * size, size, device=x.device).view(columns.size(0), -1, 1)
        index = (firsts + columns.unsqueeze(1)).flatten()
        return x.flatten(0, 1).index_select(0, index).unflatten(0, (rows, size))
    by_sentence = x.unflatten(0, (columns.size(0), -1))
    shape = [1] * by_sentence.dim()
    shape[0], shape[dim + 1 if dim > 0 else dim] = columns.shape
    index = columns.view(shape).expand_as(by_sentence)
    return by_sentence.gather(dim + 1 if dim > 0 else dim, index).flatten(0, 1)


def lengths_and_mask(padding_mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """The numbers of tokens of source sentences, and the mask, or None if there is no padding.

    The device is read once. A graph that ``torch.export`` or ``torch.compile`` makes must not
    depend on the content of a batch; there, the mask is always returned.

    Args:
        padding_mask: B x S, True at padding, on any side.
    Returns:
        B, and B x S or None.
    Raises:
        EmptySequence: if a sentence has no tokens.
    """
    lengths = (~padding_mask).sum(dim=1)
    if torch.compiler.is_compiling():
        return lengths, padding_mask
    shortest = int(lengths.min())
    if shortest == 0:
        raise EmptySequence(int(lengths.argmin()))
    return lengths, padding_mask if shortest < padding_mask.size(1) else None


def starts_with_padding(padding_mask: Tensor) -> bool:
    """Whether padding precedes the tokens of a sentence.

    A graph of ``torch.export`` or ``torch.compile`` is for target tokens without padding there.

    Args:
        padding_mask: B x T, True at padding.
    """
    return not torch.compiler.is_compiling() and bool(padding_mask[:, :1].any())


def order_padding_last(padding_mask: Tensor) -> PaddingOrder:
    """The column order that moves padding to the right.

    Everything that a pass must know of its padding is read from the device here, at once. A graph
    of ``torch.export`` or ``torch.compile`` is one for all batches, in which every column may move.

    Args:
        padding_mask: B x T, True at padding, on any side.
    """
    lengths, num_columns = (~padding_mask).sum(dim=1), padding_mask.size(1)
    columns = torch.arange(num_columns, device=padding_mask.device)
    new_mask = columns >= lengths.unsqueeze(1)
    if torch.compiler.is_compiling():
        tokens_before, padding_before = (
            each.cumsum(dim=1) - 1 for each in (~padding_mask, padding_mask)
        )
        inverse = torch.where(padding_mask, lengths.unsqueeze(1) + padding_before, tokens_before)
        moved = torch.zeros_like(inverse).scatter(1, inverse, columns.expand_as(inverse))
        return PaddingOrder(moved, inverse, lengths, new_mask, num_columns, num_columns, 1)
    differs = (new_mask != padding_mask).any()
    facts = torch.stack([lengths.max(), lengths.min(), differs.to(lengths.dtype)])
    longest, shortest, moves = facts.tolist()
    order = padding_mask.to(torch.uint8).argsort(dim=1, stable=True) if moves else None
    return PaddingOrder(
        order,
        None if order is None else order.argsort(dim=1),
        lengths,
        new_mask if shortest < num_columns else None,
        num_columns,
        longest,
        shortest,
    )
