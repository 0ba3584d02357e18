"""Output projections, from decoder features to logits."""

import torch
from torch import Tensor, nn

from .int8 import Weight, select_rows
from .linear import Linear, linear


class TiedOutputProjection(nn.Module):
    """An output projection whose weight is the target embedding matrix.

    Like other embeddings, the weight is not weight-normalized (ConvS2S, section 4.2).

    Args:
        words: the target embedding matrix, V x E.
    """

    def __init__(self, words: nn.Embedding):
        super().__init__()
        self.words = words
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings))

    def forward(self, features: Tensor) -> Tensor:
        """Logits R x T x V from features R x T x E."""
        return linear(features, self.words.weight, self.bias)

    def weight_and_bias(self, tokens: Tensor | None = None) -> tuple[Weight, Tensor]:
        """Weight V x E and bias V; if K token indices are given, K x E and K of these tokens."""
        return _select(self.words.weight, self.bias, tokens)


class OutputProjection(Linear):
    """An output projection with its own weight, which is not weight-normalized.

    Weights are initialized from a normal distribution with variance 1 / C, as embeddings are, and
    biases with zero.

    Args:
        channels: C of the features.
        vocab_size: V.
    """

    def __init__(self, channels: int, vocab_size: int):
        super().__init__(channels, vocab_size)
        nn.init.normal_(self.weight, std=channels**-0.5)
        nn.init.zeros_(self.bias)

    def weight_and_bias(self, tokens: Tensor | None = None) -> tuple[Weight, Tensor]:
        """Weight V x C and bias V; if K token indices are given, K x C and K of these tokens."""
        return _select(self.weight, self.bias, tokens)


def _select(weight: Weight, bias: Tensor, tokens: Tensor | None) -> tuple[Weight, Tensor]:
    if tokens is None:
        return weight, bias
    return select_rows(weight, tokens), bias.index_select(0, tokens)
