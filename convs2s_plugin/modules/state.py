"""The one mechanism for what generation remembers between two steps.

Two things are remembered. What belongs to a hypothesis (the last inputs of a convolution, say)
lies in a State and is reordered once a step. What belongs to a sentence (the encoder's output)
is never copied for the hypotheses of its beam: they share its row.
"""

from typing import Any, Callable, Dict, Optional

import torch
from torch import Tensor


class State:
    """What one module and its children remember between two steps.

    Tensors set by name have one row a hypothesis in their first dimension; values made by
    ``fixed`` are the same for all hypotheses and all steps of one search.
    """

    def __init__(self) -> None:
        self.rows: Dict[str, Tensor] = {}
        self.constants: Dict[str, Any] = {}
        self.children: Dict[str, State] = {}
        self.length = 0

    def child(self, name: str) -> "State":
        """The state of the part called ``name``, empty at first."""
        if name not in self.children:
            self.children[name] = State()
        return self.children[name]

    def fixed(self, name: str, make: Callable[[], Any]) -> Any:
        """The value that ``make`` gave when this name was first asked for."""
        if name not in self.constants:
            self.constants[name] = make()
        return self.constants[name]

    def reorder_(self, new_order: Tensor) -> None:
        """Let row i be what row ``new_order[i]`` was, here and in every child."""
        for name, tensor in self.rows.items():
            self.rows[name] = tensor.index_select(0, new_order)
        for child in self.children.values():
            child.reorder_(new_order)


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
    sentences = torch.div(new_order, source["rows_per_sentence"], rounding_mode="floor")
    unique, counts = torch.unique_consecutive(sentences, return_counts=True)
    rows_per_sentence = 1
    if counts.numel() and bool((counts == counts[0]).all()):
        sentences, rows_per_sentence = unique, int(counts[0])

    reordered = {**source, "rows_per_sentence": rows_per_sentence}
    tensors = {name: value for name, value in source.items() if isinstance(value, Tensor)}
    size = len(next(iter(tensors.values())))
    if not torch.equal(sentences, torch.arange(size, device=sentences.device)):
        for name, tensor in tensors.items():
            reordered[name] = tensor.index_select(0, sentences)
    return reordered
