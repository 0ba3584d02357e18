"""Incremental state: everything that is cached between the steps of incremental decoding.

Tensors with one row per hypothesis are reordered once per step. Tensors with one row per sentence
(the encoder output, or keys and values computed from it) are shared by the hypotheses of a beam
and never copied for them.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from torch import Tensor

from .beam_order import BeamOrder
from .kv_cache import Backpointers, KVCache


class State:
    """The incremental state of one module and, in its children, of the module's parts.

    Attributes:
        rows: tensors with one row per hypothesis in their first dimension.
        sentences: tensors with one row per sentence, shared by its hypotheses.
        constants: values that are the same for all hypotheses and steps of one search.
        children: the states of the module's parts.
        backpointers: which columns of the key-value caches are the past of each hypothesis; in the
            root state only, None if there are no caches.
        beam_size: how many consecutive hypotheses share a sentence (1); in the root state only.
        length: the number of positions decoded so far (0).
    """

    def __init__(self) -> None:
        self.rows: dict[str, Tensor] = {}
        self.sentences: dict[str, Tensor] = {}
        self.constants: dict[str, Any] = {}
        self.children: dict[Hashable, State] = {}
        self.backpointers: Backpointers | None = None
        self.beam_size = 1
        self.length = 0
        self._kv_cache: KVCache | None = None

    def child(self, name: Hashable) -> "State":
        """The state of the part called ``name``, created on first use."""
        if name not in self.children:
            self.children[name] = State()
        return self.children[name]

    def kv_cache(self) -> KVCache:
        """The key-value cache of this module, an attention layer, created on first use."""
        if self._kv_cache is None:
            self._kv_cache = KVCache()
        return self._kv_cache

    def constant(self, name: str, make: Callable[[], Any]) -> Any:
        """The constant called ``name``, computed by ``make`` on first use."""
        if name not in self.constants:
            self.constants[name] = make()
        return self.constants[name]

    def walk(self) -> Iterator["State"]:
        """This state and all states below it."""
        yield self
        for state in self.children.values():
            yield from state.walk()

    def reorder_(self, new_order: Tensor, beam_order: BeamOrder | None = None) -> None:
        """Let hypothesis i continue hypothesis ``new_order[i]``, here and in every child.

        Args:
            new_order: R' indices of hypotheses; an index may occur more than once or not at all.
            beam_order: the order of their sentences; None to compute it if it is needed.
        """
        states = list(self.walk())
        for state in states:
            for name, tensor in state.rows.items():
                state.rows[name] = tensor.index_select(0, new_order)
        shared = [(state, name) for state in states for name in state.sentences]
        if not shared and self.backpointers is None:
            return
        beam_order = beam_order or BeamOrder(new_order, self.beam_size)
        for state, name in shared:
            state.sentences[name] = beam_order.select(state.sentences[name])
        if self.backpointers is not None:
            caches = [state._kv_cache for state in states if state._kv_cache is not None]
            self.backpointers.reorder_(new_order, beam_order, caches)
        self.beam_size = beam_order.new_beam_size


def child(state: State | None, name: Hashable) -> State | None:
    """``state.child(name)``, or None if there is no incremental state."""
    return None if state is None else state.child(name)


def reorder_encoder_output(encoder_output: dict[str, Any], beam_order: BeamOrder) -> dict[str, Any]:
    """Reorder an encoder output without copying it for each hypothesis.

    Args:
        encoder_output: tensors with one row per sentence, and ``beam_size``: how many consecutive
            hypotheses share a row (1 before the search).
        beam_order: made for this ``beam_size``.
    Returns:
        A new dictionary; tensors are copied only if sentences move or leave.
    """
    reordered = {
        name: beam_order.select(value) if isinstance(value, Tensor) else value
        for name, value in encoder_output.items()
    }
    return {**reordered, "beam_size": beam_order.new_beam_size}
