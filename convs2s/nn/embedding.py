"""Embeddings of tokens and of their absolute positions (ConvS2S, section 3.1)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..common.errors import SequenceTooLong
from .dropout import Dropout
from .int8 import Int8Matrix, Weight, quantize_parameter_


def look_up(weight: Weight, index: Tensor, padding_idx: int | None = None) -> Tensor:
    """Look up rows of a matrix.

    Args:
        weight: V x E, in 8 bits or not.
        index: of any shape.
        padding_idx: the row that gets no gradient; None for no such row.
    Returns:
        ... x E.
    """
    if isinstance(weight, Int8Matrix):
        return weight.look_up(index)
    return F.embedding(index, weight, padding_idx)


class EmbeddingMatrix(nn.Embedding):
    """``nn.Embedding``, which can be quantized; arguments are those of ``nn.Embedding``."""

    def forward(self, input: Tensor) -> Tensor:
        """Look up ... x E."""
        return look_up(self.weight, input, self.padding_idx)

    def quantize_weights_(self) -> None:
        """Replace the matrix with one in 8 bits, for inference."""
        quantize_parameter_(self)


def random_embedding_matrix(
    num_embeddings: int, embed_dim: int, padding_idx: int, std: float = 0.1
) -> EmbeddingMatrix:
    """Create a random embedding matrix, normal with mean 0, with zeros for padding.

    Args:
        num_embeddings: V.
        embed_dim: E.
        padding_idx: index of the padding token.
        std: standard deviation (0.1).
    """
    matrix = EmbeddingMatrix(num_embeddings, embed_dim, padding_idx)
    nn.init.normal_(matrix.weight, std=std)
    nn.init.zeros_(matrix.weight[padding_idx])
    return matrix


def check_length(length: int, max_positions: int) -> None:
    """Refuse a sequence that is longer than the number of position vectors.

    Raises:
        SequenceTooLong: if it is.
    """
    if length > max_positions:
        raise SequenceTooLong(length, max_positions)


@contextmanager
def cut_tokens(matrices: Iterable[nn.Module], probability: float) -> Iterator[None]:
    """Set the embeddings of random tokens to zero, in every second sentence of each batch.

    Positions stay (SimCut, Gao et al. 2022).

    Args:
        matrices: look up B x T tokens, as ``EmbeddingMatrix`` does.
        probability: probability that a token is cut.
    """

    def cut(module: nn.Module, inputs: tuple[Tensor], embedded: Tensor) -> Tensor:
        kept = torch.ones_like(embedded[..., 0])
        kept[1::2] = torch.rand_like(kept[1::2], dtype=torch.float32) >= probability
        return embedded * kept.unsqueeze(-1)

    hooks = [matrix.register_forward_hook(cut) for matrix in matrices]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class LearnedPositions(nn.Module):
    """A learned vector for each absolute position; padding does not count as a position.

    Row 0 is for padding and stays zero; rows 1 to ``max_positions`` are for tokens.

    Args:
        max_positions: largest number of tokens in a sentence, end of sentence included.
        embed_dim: E.
    """

    def __init__(self, max_positions: int, embed_dim: int):
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(torch.empty(max_positions + 1, embed_dim))
        nn.init.normal_(self.weight, std=0.1)
        nn.init.zeros_(self.weight[0])

    def forward(self, padding_mask: Tensor, start: int = 0) -> Tensor:
        """Look up the vectors of the columns from ``start`` on.

        Args:
            padding_mask: B x T, True at padding, on any side.
            start: first column to look up (0).
        Returns:
            B x (T - start) x E.
        Raises:
            SequenceTooLong: if a sentence has more than ``max_positions`` tokens.
        """
        real = ~padding_mask
        positions = real.cumsum(dim=1) * real
        # Columns are counted first: the number of tokens is on the device, and slow to read.
        if padding_mask.size(1) > self.max_positions:
            check_length(int(positions.max()), self.max_positions)
        return look_up(self.weight, positions[:, start:], padding_idx=0)

    def quantize_weights_(self) -> None:
        """Replace the vectors with vectors in 8 bits, for inference."""
        quantize_parameter_(self)


class Embedding(nn.Module):
    """Token embeddings plus position vectors, then dropout.

    Args:
        words: embedding matrix, V x E.
        positions: position vectors, or None for token embeddings only (ConvS2S, table 4).
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
            tokens: B x T token indices.
            padding_mask: B x T, True at padding.
            start: first column to embed (0); earlier columns only count for positions.
        Returns:
            B x (T - start) x E.
        Raises:
            SequenceTooLong: if a sentence has more tokens than there are position vectors.
        """
        x = self.words(tokens[:, start:])
        if self.positions is not None:
            x = x + self.positions(padding_mask, start)
        return self.dropout(x)
