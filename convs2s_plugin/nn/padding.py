"""Sentences with padding on any side, brought to one form: words first, padding behind them."""

from typing import NamedTuple

import torch
from torch import Tensor


class Compact(NamedTuple):
    """How the columns of a batch move so that padding follows the words.

    Attributes:
        order: B x T, the column that comes to each place; None where nothing moves.
        places: B x T, the place that each column comes to; None where nothing moves.
        lengths: B, words of each sentence.
        mask: B x T, True at padding in the new order, or None where there is none.
        columns: T.
    """

    order: Tensor | None
    places: Tensor | None
    lengths: Tensor
    mask: Tensor | None
    columns: int

    def apply(self, tokens: Tensor) -> Tensor:
        """Tokens B x T in the new order."""
        return tokens if self.order is None else tokens.gather(1, self.order)

    def restore(self, x: Tensor) -> Tensor:
        """B x T x C in the new order, back in the order that columns had."""
        if self.places is None:
            return x
        return x.gather(1, self.places.unsqueeze(-1).expand(-1, -1, x.size(-1)))

    def positions(self) -> tuple[Tensor, int]:
        """Numbers of the positions in the new order, T from 0, and words of the longest sentence.

        Padding behind the longest sentence has the number of its last word.
        """
        longest = int(self.lengths.max())
        places = torch.arange(self.columns, device=self.lengths.device)
        return places.clamp(max=longest - 1), longest


def compact(padding: Tensor) -> Compact:
    """Find out how columns must move.

    Args:
        padding: B x T, True at padding, on whichever side.
    """
    lengths, columns = (~padding).sum(dim=1), padding.size(1)
    if not bool(padding.any()):
        return Compact(None, None, lengths, None, columns)
    mask = torch.arange(columns, device=padding.device) >= lengths.unsqueeze(1)
    if torch.equal(mask, padding):
        return Compact(None, None, lengths, mask, columns)
    order = padding.to(torch.uint8).argsort(dim=1, stable=True)
    return Compact(order, order.argsort(dim=1), lengths, mask, columns)
