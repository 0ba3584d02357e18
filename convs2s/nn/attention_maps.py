"""The attention weights of every layer and head of a model, by name."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor

from .attention import MEAN_ALIGNMENT

# The kinds of maps: queries and keys.
SOURCE = "source"  # target positions attend to source positions
ENCODER = "encoder"  # source positions attend to source positions
DECODER = "decoder"  # target positions attend to target positions
CONTRIBUTIONS = "contributions"  # terms of a target token's logit, one for each source position
KINDS = (SOURCE, CONTRIBUTIONS, DECODER, ENCODER)
MEAN = "mean"


class AttentionMap(NamedTuple):
    """The weights of one layer.

    Attributes:
        kind: one of KINDS.
        layer: the layer, such as "3" or "max"; unique for the kind.
        weights: B x h x Q x K for h heads, Q queries and K keys. Each row is a distribution over
            the keys; those of CONTRIBUTIONS are signed, and add up to a logit without its bias.
        description: the layer in words, such as "decoder layer 3".
    """

    kind: str
    layer: str
    weights: Tensor
    description: str

    @property
    def name(self) -> str:
        """Kind and layer, such as "source.3"."""
        return f"{self.kind}.{self.layer}"


class AttentionMaps(list[AttentionMap]):
    """The maps of one forward pass, from the first layer to the last; see ``record_attention``."""

    def add(self, kind: str, weights: Tensor, description: str, layer: str | None = None) -> None:
        """Append the map of a layer.

        Args:
            kind: one of KINDS.
            weights: B x h x Q x K.
            description: the layer in words.
            layer: the layer; None for the number of the layer among those of its kind, from 1.
        """
        if layer is None:
            layer = str(1 + len(self.of_kind(kind)))
        self.append(AttentionMap(kind, layer, weights, description))

    def of_kind(self, kind: str) -> list[AttentionMap]:
        """The maps of one kind."""
        return [found for found in self if found.kind == kind]

    def mean(self) -> Tensor | None:
        """The attention to the source averaged over heads, then over layers.

        Returns:
            B x T x S, or None if no layer attends to the source.
        """
        return MEAN_ALIGNMENT.of([found.weights for found in self.of_kind(SOURCE)])


_recorded: ContextVar[AttentionMaps | None] = ContextVar("attention_maps", default=None)


@contextmanager
def record_attention() -> Iterator[AttentionMaps]:
    """Let all networks that this thread runs in the body add the weights of each layer to maps.

    Self-attention is recorded where whole sentences are computed, not in incremental decoding.
    """
    maps = AttentionMaps()
    token = _recorded.set(maps)
    try:
        yield maps
    finally:
        _recorded.reset(token)


def recorded_maps() -> AttentionMaps | None:
    """The maps to which layers add their weights; None if they are not recorded."""
    return _recorded.get()
