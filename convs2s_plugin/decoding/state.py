"""The one mechanism for what generation remembers between two steps.

Two things are remembered. What belongs to a hypothesis (the last inputs of a convolution, say)
lies in a State and is reordered once a step. What belongs to a sentence (the encoder's output, or
what a decoder layer makes of it) is never copied for the hypotheses of its beam: they share its
row.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from torch import Tensor

from .beam_order import BeamOrder
from .kv_cache import Backpointers, KVCache


class State:
    """What one module and its children remember between two steps.

    Attributes:
        rows: tensors with one row a hypothesis in their first dimension.
        sentences: tensors with one row a sentence, shared by its hypotheses.
        kv_caches: what all hypotheses of a sentence have written (see history.py).
        constants: what is the same for all hypotheses and all steps of one search.
        backpointers: of the root: which of the kv_caches is each hypothesis' own past.
        beam_size: of the root: how many successive hypotheses share a sentence.
        length: how many positions have been seen.
    """

    def __init__(self) -> None:
        self.rows: dict[str, Tensor] = {}
        self.sentences: dict[str, Tensor] = {}
        self.kv_caches: dict[str, KVCache] = {}
        self.constants: dict[str, Any] = {}
        self.children: dict[Hashable, State] = {}
        self.backpointers: Backpointers | None = None
        self.beam_size = 1
        self.length = 0

    def child(self, name: Hashable) -> "State":
        """The state of the part called ``name``, empty at first."""
        if name not in self.children:
            self.children[name] = State()
        return self.children[name]

    def kv_cache(self, name: str) -> KVCache:
        """The history called ``name``, empty at first."""
        if name not in self.kv_caches:
            self.kv_caches[name] = KVCache()
        return self.kv_caches[name]

    def constant(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that ``make`` gave when this name was first asked for."""
        if name not in self.constants:
            self.constants[name] = make()
        return self.constants[name]

    def walk(self) -> Iterator["State"]:
        """This state and all below it."""
        yield self
        for state in self.children.values():
            yield from state.walk()

    def reorder_(self, new_order: Tensor) -> None:
        """Let row i be what row ``new_order[i]`` was, here and in every child."""
        states = list(self.walk())
        for state in states:
            for name, tensor in state.rows.items():
                state.rows[name] = tensor.index_select(0, new_order)
        shared = [(state, name) for state in states for name in state.sentences]
        kv_caches = [history for state in states for history in state.kv_caches.values()]
        if not shared and self.backpointers is None:
            return
        order = BeamOrder(new_order, self.beam_size)
        for state, name in shared:
            state.sentences[name] = order.select(state.sentences[name])
        if self.backpointers is not None:
            self.backpointers.reorder_(new_order, order, kv_caches)
        self.beam_size = order.beam_size


def child(state: State | None, name: str) -> State | None:
    """``state.child(name)``, or None outside of generation."""
    return None if state is None else state.child(name)


def reorder_source(source: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
    """Reorder an encoder's output without a copy for each hypothesis.

    Args:
        source: tensors with one row a sentence, and ``beam_size``: how many successive
            hypotheses share a row (1 before the search).
        new_order: R' indices of hypotheses; repetitions are allowed.
    Returns:
        A new dictionary; tensors are copied only where sentences leave or change places.
    """
    order = BeamOrder(new_order, source["beam_size"])
    return {
        **{
            name: order.select(value) if isinstance(value, Tensor) else value
            for name, value in source.items()
        },
        "beam_size": order.beam_size,
    }
