"""The output layer of a decoder as one weight and one bias, for all tokens or for some of them."""

from typing import NamedTuple

from fairseq.models import FairseqDecoder, FairseqEncoderDecoderModel
from torch import Tensor, nn

from convs2s.common.errors import UserError
from convs2s.nn.int8 import Weight, dense
from convs2s.nn.linear import linear


class OutputLayer(NamedTuple):
    """A linear map from features to logits: weight V x C, and bias V or None."""

    weight: Weight
    bias: Tensor | None

    def logits(self, features: Tensor) -> Tensor:
        """Compute logits ... x V from features ... x C."""
        return linear(features, self.weight, self.bias)


def has_linear_output(decoder: FairseqDecoder) -> bool:
    """Whether the logits of a decoder are one linear map of its features.

    This holds for the decoders of this package, and for fairseq's transformers unless they have an
    adaptive softmax.
    """
    if _is_of_this_package(decoder):
        return True
    is_linear = isinstance(getattr(decoder, "output_projection", None), nn.Linear)
    return is_linear and getattr(decoder, "adaptive_softmax", None) is None


def _is_of_this_package(decoder: FairseqDecoder) -> bool:
    return hasattr(getattr(decoder, "output", None), "weight_and_bias")


def output_layer_of(decoder: FairseqDecoder, tokens: Tensor | None = None) -> OutputLayer:
    """Return the output layer of a decoder.

    Args:
        decoder: a decoder of this package, or one of fairseq with a linear ``output_projection``.
        tokens: K token indices to restrict the output layer to; None for all V tokens.
    Raises:
        UserError: if the logits of the decoder are not one linear map of its features.
    """
    if _is_of_this_package(decoder):
        return OutputLayer(*decoder.output.weight_and_bias(tokens))
    if not has_linear_output(decoder):
        raise UserError(
            f"{type(decoder).__name__} does not compute logits with one linear layer, which "
            "convs2s_cross_entropy and --lexicon need: use a model of this package or fairseq's "
            "transformer without --adaptive-softmax-cutoff, or fairseq's "
            "--criterion label_smoothed_cross_entropy without --lexicon."
        )
    projection = decoder.output_projection
    if tokens is None:
        return OutputLayer(projection.weight, projection.bias)
    bias = None if projection.bias is None else projection.bias.index_select(0, tokens)
    return OutputLayer(projection.weight.index_select(0, tokens), bias)


def output_weights(model: FairseqEncoderDecoderModel) -> list[Tensor]:
    """The weight of the output layer of a model; empty if logits are not one linear map."""
    if not has_linear_output(model.decoder):
        return []
    return [dense(output_layer_of(model.decoder).weight)]
