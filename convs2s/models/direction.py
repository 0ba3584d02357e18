"""Decoders that predict the last token of a translation first, from right to left.

Around a forward pass over whole translations, positions change places, so that all callers see the
tokens from left to right: losses, scores of given translations, and attention. A search is left to
the decoder's own order, and turns around what it found (``translation/search.py``).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..nn.attention import DECODER, ENCODER, AttentionMaps, recorded_maps


class Turned:
    """The positions of a batch whose translations are turned around.

    Args:
        padding_mask: B x T, True at padding, which is at either side of a translation.
    """

    def __init__(self, padding_mask: Tensor):
        is_token = ~padding_mask
        number = is_token.sum(dim=1, keepdim=True)
        place = torch.arange(padding_mask.size(1), device=padding_mask.device).expand_as(is_token)
        first = is_token.int().argmax(dim=1, keepdim=True)
        # The start stays in front of the others, and so does the end behind them.
        mirror = 2 * first + number - place
        self._inputs = torch.where(is_token & (place > first), mirror, place)
        self._outputs = torch.where(is_token & (place < first + number - 1), mirror - 2, place)

    def inputs(self, x: Tensor, dim: int = 1) -> Tensor:
        """Turn around what belongs to previous tokens: those after the start.

        Args:
            x: its first dimension is B, and T the one that changes.
            dim: the dimension that changes (1).
        """
        return _gather(x, self._inputs, dim)

    def outputs(self, x: Tensor, dim: int = 1) -> Tensor:
        """Turn around what belongs to predicted tokens: those before the end; see ``inputs``."""
        return _gather(x, self._outputs, dim)

    def turn_maps_(self, maps: AttentionMaps | None, start: int) -> None:
        """Turn around the decoder's maps from number ``start`` on, if any are recorded."""
        for number in range(start, len(maps or ())):
            assert maps is not None
            if maps[number].kind == ENCODER:
                continue
            weights = self.outputs(maps[number].weights, dim=2)
            if maps[number].kind == DECODER:
                weights = self.inputs(weights, dim=3)
            maps[number] = maps[number]._replace(weights=weights)


def decode_turned(
    decode: Callable[..., Any],
    tokens: Tensor,
    padding_mask: Tensor,
    encoded: dict[str, Any],
    state: None,
    need_weights: bool,
    **options: Any,
) -> tuple[Tensor, Any]:
    """What ``Decoder.decode`` returns, for whole translations, in their own order.

    Args:
        decode: the method of a decoder that predicts the last token first.
        tokens, padding_mask, encoded, state, need_weights, options: its arguments.
    """
    turned, maps = Turned(padding_mask), recorded_maps()
    if (target_tokens := options.get("target_tokens")) is not None:
        options["target_tokens"] = turned.outputs(target_tokens)
    start = len(maps or ())
    features, attention = decode(
        turned.inputs(tokens), padding_mask, encoded, state, need_weights, **options
    )
    turned.turn_maps_(maps, start)
    if callable(attention):
        return turned.outputs(features), _turned_function(turned, attention)
    return turned.outputs(features), None if attention is None else turned.outputs(attention)


def _turned_function(
    turned: Turned, attention: Callable[[Tensor | None], Tensor]
) -> Callable[[Tensor | None], Tensor]:
    """Attention that depends on the logits, B x T x V."""

    def weights_of(logits: Tensor | None) -> Tensor:
        maps = recorded_maps()
        start = len(maps or ())
        weights = attention(None if logits is None else turned.outputs(logits))
        turned.turn_maps_(maps, start)
        return turned.outputs(weights)

    return weights_of


def _gather(x: Tensor, places: Tensor, dim: int) -> Tensor:
    shape = [1] * x.dim()
    shape[0], shape[dim] = places.shape
    return x.gather(dim, places.view(shape).expand(*x.shape))
