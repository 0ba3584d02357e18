"""Sentences with padding on any side, brought to one form: words first, padding behind them."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor


class Compact(NamedTuple):
    """How the columns of a batch move so that padding follows the words.

    Attributes:
        order: B x T, the column that comes to each place; None where nothing moves.
        places: B x T, the place that each column comes to; None where nothing moves.
        lengths: B, words of each sentence.
        mask: B x T, True at padding in the new order, or None where there is none.
    """

    order: Optional[Tensor]
    places: Optional[Tensor]
    lengths: Tensor
    mask: Optional[Tensor]

    def apply(self, tokens: Tensor) -> Tensor:
        """Tokens B x T in the new order."""
        return tokens if self.order is None else tokens.gather(1, self.order)


def compact(padding: Tensor) -> Compact:
    """Find out how columns must move.

    Args:
        padding: B x T, True at padding, on whichever side.
    """
    lengths = (~padding).sum(dim=1)
    if not bool(padding.any()):
        return Compact(None, None, lengths, None)
    mask = torch.arange(padding.size(1), device=padding.device) >= lengths.unsqueeze(1)
    if torch.equal(mask, padding):
        return Compact(None, None, lengths, mask)
    order = padding.to(torch.uint8).argsort(dim=1, stable=True)
    return Compact(order, order.argsort(dim=1), lengths, mask)
