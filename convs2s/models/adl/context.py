"""The inputs that all layers of one forward pass share."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from ...nn.state import State


@dataclass
class Source:
    """The encoder output that a decoder attends to.

    Args:
        blocks: outputs of encoder blocks by number, B x S x C each.
        padding_mask: B x S, True at padding; None if there is none.
        beam_size: how many consecutive hypotheses share a sentence (1).
        columns: B x S, for each column of the batch, its column here, where padding follows the
            tokens; None if all stay in place.
    """

    blocks: dict[int, Tensor]
    padding_mask: Tensor | None = None
    beam_size: int = 1
    columns: Tensor | None = None


class LayerAttention(NamedTuple):
    """The attention weights of one layer.

    Attributes:
        name: the type of the layer, such as "mh_dot_src_att".
        to_source: whether the keys are source positions; if not, they are those of the queries.
        weights: R x h x Q x K.
    """

    name: str
    to_source: bool
    weights: Tensor


@dataclass
class Context:
    """One forward pass through the layers of an encoder or a decoder.

    Args:
        positions: position numbers from 0, T or B x T; any number at padding.
        longest: tokens of the longest sentence so far; larger than all ``positions``.
        padding_mask: B x T, True at padding. None if there is no padding, or if it follows the
            tokens of a causal pass, where no token sees it.
        state: the incremental state; None in a full pass.
        beam_size: how many consecutive hypotheses share a row of the key-value caches (1).
        cache_mask: in incremental decoding, which columns of the key-value cache a query may
            attend to (see `nn.state.Backpointers.extend`); None for all.
        source: the encoder output that a decoder attends to; without blocks in an encoder.
        need_weights: whether layers that attend to the source append their weights to
            ``attention`` (False). Self-attention layers do so if weights are recorded.
        attention: attention weights in the order of the layers.
    """

    positions: Tensor
    longest: int
    padding_mask: Tensor | None = None
    state: State | None = None
    beam_size: int = 1
    cache_mask: Tensor | None = None
    source: Source = field(default_factory=lambda: Source({}))
    need_weights: bool = False
    attention: list[LayerAttention] = field(default_factory=list)
    _shared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def shared(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What several layers of this pass need, computed by ``make`` for the first of them.

        Args:
            name: the same name for layers that need the same.
            make: a function of the context.
        """
        if name not in self._shared:
            self._shared[name] = make()
        return self._shared[name]

    def layer_state(self, layer: nn.Module) -> State | None:
        """The incremental state of one layer; None in a full pass.

        A layer keeps tensors with one row per hypothesis in ``.rows`` and tensors with one row
        per sentence in ``.sentences``; beam search reorders both. Self-attention appends its keys
        and values to ``.kv_cache()``.
        """
        if self.state is None:
            return None
        # A layer of a decoder has a number; one that is called alone is its own key.
        return self.state.child(getattr(layer, "state_number", layer))
