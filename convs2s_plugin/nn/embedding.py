"""Embeddings of words and of their absolute positions (ConvS2S, section 3.1)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserError
from .dropout import Dropout


def word_embedding(
    num_embeddings: int, embed_dim: int, padding_idx: int, std: float = 0.1
) -> nn.Embedding:
    """A table of word vectors, normal with the given standard deviation, zero for padding."""
    table = nn.Embedding(num_embeddings, embed_dim, padding_idx)
    nn.init.normal_(table.weight, std=std)
    nn.init.zeros_(table.weight[padding_idx])
    return table


def check_length(longest: int, max_positions: int, what: str) -> None:
    """Refuse a sentence for which there are not enough positions.

    Args:
        longest: words in the longest sentence of a batch.
        max_positions: words that there are positions for.
        what: whose sentence it is, "source" or "target".
    Raises:
        UserError: where it is too long.
    """
    if longest > max_positions:
        raise UserError(
            f"A {what} sentence has {longest} tokens, more than the {max_positions} that "
            f"--max-{what}-positions allowed in training: shorten it or train with a larger value."
        )


class LearnedPositions(nn.Module):
    """A learned vector for each absolute position; positions count real words only.

    Row 0 stands for padding and stays zero; word 1 to word ``max_positions`` have rows of their
    own, so that ``max_positions`` is the longest sentence there can be.

    Args:
        max_positions: words in the longest sentence, end of sentence included.
        embed_dim: E.
        what: whose positions these are, for messages.
    """

    def __init__(self, max_positions: int, embed_dim: int, what: str):
        super().__init__()
        self.max_positions, self.what = max_positions, what
        self.weight = nn.Parameter(torch.empty(max_positions + 1, embed_dim))
        nn.init.normal_(self.weight, std=0.1)
        nn.init.zeros_(self.weight[0])

    def forward(self, padding_mask: Tensor, start: int = 0) -> Tensor:
        """Vectors of the positions from ``start`` on.

        Args:
            padding_mask: B x T, True at padding, on whichever side.
            start: the first position that is wanted (0).
        Returns:
            B x (T - start) x E.
        Raises:
            UserError: where a sentence has more than ``max_positions`` words.
        """
        real = ~padding_mask
        positions = real.cumsum(dim=1) * real
        if padding_mask.size(1) > self.max_positions:
            check_length(int(positions.max()), self.max_positions, self.what)
        return F.embedding(positions[:, start:], self.weight, padding_idx=0)


class Embedding(nn.Module):
    """Word vectors plus position vectors, then dropout.

    Args:
        words: the table of word vectors, V x E.
        positions: the table of positions, or None to leave positions out (Table 4).
        dropout: probability of dropping a channel (0).
    """

    def __init__(
        self, words: nn.Embedding, positions: LearnedPositions | None, dropout: float = 0.0
    ):
        super().__init__()
        self.words = words
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, padding_mask: Tensor, start: int = 0) -> Tensor:
        """Embed ``tokens[:, start:]``.

        Args:
            tokens: B x T word indices.
            padding_mask: B x T, True at padding.
            start: the first position that is wanted; those before it only count for positions.
        Returns:
            B x (T - start) x E.
        """
        x = self.words(tokens[:, start:])
        if self.positions is not None:
            x = x + self.positions(padding_mask, start)
        return self.dropout(x)
