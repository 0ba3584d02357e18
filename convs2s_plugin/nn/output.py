"""From features to words: the vocabulary's projection."""

import torch
from torch import Tensor, nn

from ..decoding.state import State
from .linear import linear
from .weight_norm import WeightNormLinear


class TiedOutput(nn.Module):
    """A projection whose weight is the table of the target's word vectors.

    As a look-up table, it is not weight-normalised (ConvS2S, section 4.2).

    Args:
        words: the table, V x E.
    """

    def __init__(self, words: nn.Embedding):
        super().__init__()
        self.words = words
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings))

    def forward(self, features: Tensor, state: State | None = None) -> Tensor:
        """Scores B x T x V of features B x T x E."""
        return linear(features, self.words.weight, self.bias)

    def weight_and_bias(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The table V x E and the bias V, or only the words ``rows`` of them."""
        if rows is None:
            return self.words.weight, self.bias
        return self.words.weight.index_select(0, rows), self.bias.index_select(0, rows)


class Output(nn.Linear):
    """A projection with weights of its own, not normalised.

    Weights are normal with variance 1 / C, as those of tables of words are; biases are zero.

    Args:
        channels: C of the features.
        words: V.
    """

    def __init__(self, channels: int, words: int):
        super().__init__(channels, words)
        nn.init.normal_(self.weight, std=channels**-0.5)
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor, state: State | None = None) -> Tensor:
        """Scores B x T x V of features B x T x C."""
        return linear(features, self.weight, self.bias)

    def weight_and_bias(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The weight V x C and the bias V, or only the words ``rows`` of them."""
        if rows is None:
            return self.weight, self.bias
        return self.weight.index_select(0, rows), self.bias.index_select(0, rows)


def output_projection(
    features: int, words: nn.Embedding, tied: bool, dropout: float = 0.0
) -> nn.Module:
    """The map from decoder features to scores of words.

    Args:
        features: channels of the decoder's output.
        words: the target's table of word vectors.
        tied: use that table as weight.
        dropout: probability with which the features are dropped, for the initialisation (0).
    """
    if tied:
        return TiedOutput(words)
    return WeightNormLinear(features, words.num_embeddings, dropout=dropout)
