"""The one mechanism for what generation remembers between two steps.

Two things are remembered. What belongs to a hypothesis (the last inputs of a convolution, say)
lies in a State and is reordered once a step. What belongs to a sentence (the encoder's output, or
what a decoder layer makes of it) is never copied for the hypotheses of its beam: they share its
row.
"""

from typing import Any, Callable, Dict, Hashable, Iterator, Optional

import torch
from torch import Tensor


class State:
    """What one module and its children remember between two steps.

    Attributes:
        rows: tensors with one row a hypothesis in their first dimension.
        sentences: tensors with one row a sentence, shared by its hypotheses.
        constants: what is the same for all hypotheses and all steps of one search.
        rows_per_sentence: of the root: how many successive hypotheses share a sentence.
        length: how many positions have been seen.
    """

    def __init__(self) -> None:
        self.rows: Dict[str, Tensor] = {}
        self.sentences: Dict[str, Tensor] = {}
        self.constants: Dict[str, Any] = {}
        self.children: Dict[Hashable, State] = {}
        self.rows_per_sentence = 1
        self.length = 0

    def child(self, name: Hashable) -> "State":
        """The state of the part called ``name``, empty at first."""
        if name not in self.children:
            self.children[name] = State()
        return self.children[name]

    def fixed(self, name: str, make: Callable[[], Any]) -> Any:
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
        if not shared:
            return
        order = SentenceOrder(new_order, self.rows_per_sentence)
        self.rows_per_sentence = order.rows_per_sentence
        for state, name in shared:
            state.sentences[name] = order.select(state.sentences[name])


class SentenceOrder:
    """How rows of sentences follow when their hypotheses are reordered.

    Args:
        new_order: R' indices of hypotheses; repetitions are allowed.
        rows_per_sentence: how many successive hypotheses share a sentence now.
    """

    def __init__(self, new_order: Tensor, rows_per_sentence: int):
        sentences = torch.div(new_order, rows_per_sentence, rounding_mode="floor")
        unique, counts = torch.unique_consecutive(sentences, return_counts=True)
        self.sentences, self.rows_per_sentence = sentences, 1
        if counts.numel() and bool((counts == counts[0]).all()):
            self.sentences, self.rows_per_sentence = unique, int(counts[0])
        in_place = torch.arange(len(self.sentences), device=new_order.device)
        self.first = len(in_place) if torch.equal(self.sentences, in_place) else None

    def select(self, tensor: Tensor) -> Tensor:
        """The tensor in the new order, copied only where sentences leave or change places."""
        if self.first == len(tensor):
            return tensor
        return tensor.index_select(0, self.sentences)


def child(state: Optional[State], name: str) -> Optional[State]:
    """``state.child(name)``, or None outside of generation."""
    return None if state is None else state.child(name)


def reorder_source(source: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
    """Reorder an encoder's output without a copy for each hypothesis.

    Args:
        source: tensors with one row a sentence, and ``rows_per_sentence``: how many successive
            hypotheses share a row (1 before the search).
        new_order: R' indices of hypotheses; repetitions are allowed.
    Returns:
        A new dictionary; tensors are copied only where sentences leave or change places.
    """
    order = SentenceOrder(new_order, source["rows_per_sentence"])
    return {
        **{
            name: order.select(value) if isinstance(value, Tensor) else value
            for name, value in source.items()
        },
        "rows_per_sentence": order.rows_per_sentence,
    }
