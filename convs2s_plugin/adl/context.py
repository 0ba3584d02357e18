"""The inputs of a layer that all layers of one forward pass share."""

from dataclasses import dataclass, field

from torch import Tensor, nn

from ..decoding.state import State


@dataclass
class Source:
    """The encoder output that a decoder attends to.

    Args:
        blocks: outputs of encoder blocks by number, B x S x C each.
        padding_mask: B x S, True at padding; None if there is none.
        beam_size: how many consecutive hypotheses share a sentence (1).
    """

    blocks: dict[int, Tensor]
    padding_mask: Tensor | None = None
    beam_size: int = 1


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
            attend to (see `decoding.kv_cache.Backpointers.extend`); None for all.
        source: the encoder output that a decoder attends to; without blocks in an encoder.
        need_weights: whether layers that attend to the source append their weights to
            ``attention`` (False).
        attention: attention weights, B x T x S each.
    """

    positions: Tensor
    longest: int
    padding_mask: Tensor | None = None
    state: State | None = None
    beam_size: int = 1
    cache_mask: Tensor | None = None
    source: Source = field(default_factory=lambda: Source({}))
    need_weights: bool = False
    attention: list[Tensor] = field(default_factory=list)

    def layer_state(self, layer: nn.Module) -> State | None:
        """The incremental state of one layer; None in a full pass.

        A layer keeps tensors with one row per hypothesis in ``.rows`` and tensors with one row
        per sentence in ``.sentences``; beam search reorders both. Self-attention appends its keys
        and values to ``.kv_cache()``.
        """
        return None if self.state is None else self.state.child(layer)
