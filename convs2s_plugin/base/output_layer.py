"""The one way to a decoder's output layer: weight and bias, of all words or of some."""

from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UserError
from .decoder import PluginDecoder


class OutputLayer(NamedTuple):
    """Weight V x C and bias V (or None) that turn features into scores."""

    weight: Tensor
    bias: Tensor | None

    def scores(self, features: Tensor) -> Tensor:
        """... x V of features ... x C."""
        return F.linear(features, self.weight, self.bias)


def has_output_layer(decoder: nn.Module) -> bool:
    """Whether a decoder is of this package, or scores its features with one linear map.

    fairseq's transformers do, unless they have an adaptive softmax.
    """
    if isinstance(decoder, PluginDecoder):
        return True
    linear = isinstance(getattr(decoder, "output_projection", None), nn.Linear)
    return linear and getattr(decoder, "adaptive_softmax", None) is None


def output_layer(decoder: nn.Module, words: Tensor | None = None) -> OutputLayer:
    """Weight and bias with which a decoder scores words.

    Args:
        decoder: of this package, or a fairseq decoder with a linear ``output_projection``.
        words: K indices of the words that are wanted; None for all.
    Raises:
        UserError: where the decoder scores words in another way.
    """
    if isinstance(decoder, PluginDecoder):
        return OutputLayer(*decoder.output.weight_and_bias(words))
    if not has_output_layer(decoder):
        raise UserError(
            f"{type(decoder).__name__} does not score words with one linear map of features, which "
            "convs2s_cross_entropy and --lexicon need: use this package's models or fairseq's "
            "transformer without --adaptive-softmax-cutoff, or fairseq's "
            "--criterion label_smoothed_cross_entropy without --lexicon."
        )
    projection = decoder.output_projection
    if words is None:
        return OutputLayer(projection.weight, projection.bias)
    bias = None if projection.bias is None else projection.bias.index_select(0, words)
    return OutputLayer(projection.weight.index_select(0, words), bias)
