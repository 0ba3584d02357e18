"""Incremental state: everything that is cached between the steps of incremental decoding.

Tensors with one row per hypothesis are reordered once per step. Tensors with one row per sentence
(the encoder output, or keys and values computed from it) are shared by the hypotheses of a beam
and never copied for them; nor are key-value caches, whose backpointers are reordered instead.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

from .kv_cache import KVCache


class BeamOrder:
    """The order of the sentences that follows from a new order of their hypotheses.

    Args:
        new_order: R' indices of hypotheses; an index may occur more than once or not at all.
        beam_size: how many consecutive hypotheses belong to each sentence before the reordering.

    Attributes:
        old_beam_size: ``beam_size`` before the reordering.
        new_beam_size: how many consecutive hypotheses belong to each sentence afterwards. It is 1
            if the sentences do not all keep the same number of consecutive hypotheses; every
            hypothesis then needs its own row.
        sentences: B' indices: new row i is a copy of old row ``sentences[i]``.
    """

    def __init__(self, new_order: Tensor, beam_size: int):
        sentences = torch.div(new_order, beam_size, rounding_mode="floor")
        unique, counts = torch.unique_consecutive(sentences, return_counts=True)
        self.old_beam_size, self.new_beam_size = beam_size, 1
        self.sentences: Tensor = sentences
        if counts.numel() and bool((counts == counts[0]).all()):
            self.sentences, self.new_beam_size = unique, int(counts[0])
        identity = torch.arange(len(self.sentences), device=new_order.device)
        self._starts_with_identity = torch.equal(self.sentences, identity)

    @classmethod
    def known(
        cls, sentences: Tensor, moves: bool, old_beam_size: int, new_beam_size: int
    ) -> "BeamOrder":
        """An order that the caller knows, so that it need not be read from the device.

        Args:
            sentences, old_beam_size, new_beam_size: the attributes.
            moves: whether a sentence moves or leaves.
        """
        order = cls.__new__(cls)
        order.sentences, order._starts_with_identity = sentences, not moves
        order.old_beam_size, order.new_beam_size = old_beam_size, new_beam_size
        return order

    def is_identity(self, num_sentences: int) -> bool:
        """Whether all ``num_sentences`` rows stay in place."""
        return self._starts_with_identity and len(self.sentences) == num_sentences

    def select(self, tensor: Tensor) -> Tensor:
        """Reorder a tensor with one row per sentence; copy it only if a row moves or leaves."""
        return tensor if self.is_identity(len(tensor)) else tensor.index_select(0, self.sentences)


class Backpointers:
    """For each hypothesis, which hypothesis of its sentence wrote each position of its past.

    Args:
        beam_size: how many consecutive hypotheses belong to each sentence.

    Attributes:
        writers: R x T, the number (0 to beam_size - 1) of the hypothesis that wrote a position;
            None before the first position.
        padding_mask: R x T, True at padding; None if there is none.
    """

    def __init__(self, beam_size: int):
        self.beam_size = beam_size
        self.writers: Tensor | None = None
        self.padding_mask: Tensor | None = None

    def extend(self, tokens: Tensor, padding_mask: Tensor | None = None) -> Tensor | None:
        """Add n positions, each written by the hypothesis itself, and return the attention mask.

        Args:
            tokens: R x n, the new tokens; only their shape and device are used.
            padding_mask: R x n, True at padding, which precedes the tokens of a hypothesis; None
                if there has been none yet.
        Returns:
            B x 1 x (beam_size * n) x (T * beam_size), True where a query of a hypothesis may
            attend to a column of the key-value cache; None if every query may attend to every
            column. Queries of a sentence are ordered by hypothesis, then by position.
        """
        rows, steps = tokens.shape
        own = torch.arange(rows, device=tokens.device) % self.beam_size
        own = own.unsqueeze(1).expand(-1, steps)
        self.writers = own if self.writers is None else torch.cat([self.writers, own], dim=1)
        if padding_mask is not None:
            before = self.padding_mask
            self.padding_mask = (
                padding_mask if before is None else torch.cat([before, padding_mask], dim=1)
            )
        length = self.writers.size(1)
        if self.beam_size == steps == 1 and self.padding_mask is None:
            return None
        seen = torch.ones(steps, length, dtype=torch.bool, device=tokens.device)
        seen = seen.tril(length - steps).expand(rows, -1, -1)
        if self.padding_mask is not None:
            # A position may always attend to itself, so that no softmax is over an empty set.
            itself = torch.eye(length, dtype=torch.bool, device=tokens.device)[-steps:]
            seen = seen & (~self.padding_mask.unsqueeze(1) | itself)
        hypotheses = torch.arange(self.beam_size, device=tokens.device)
        own_past = self.writers.unsqueeze(2) == hypotheses
        mask = seen.unsqueeze(3) & own_past.unsqueeze(1)
        return mask.reshape(
            rows // self.beam_size, 1, self.beam_size * steps, length * self.beam_size
        )

    def columns(self) -> Tensor:
        """R x T: the cache column of each position of a hypothesis' past."""
        assert self.writers is not None, "no position has been added"
        positions = torch.arange(self.writers.size(1), device=self.writers.device)
        return positions * self.beam_size + self.writers

    def reorder_(self, new_order: Tensor, beam_order: BeamOrder, kv_caches: list[KVCache]) -> None:
        """Let hypothesis i continue hypothesis ``new_order[i]``.

        Keys and values are copied only if sentences move or leave, or if the hypotheses of a
        sentence are no longer consecutive.

        Args:
            new_order: R' indices of hypotheses.
            beam_order: the order of their sentences.
            kv_caches: the caches that these backpointers point into.
        """
        assert self.writers is not None, "no position has been added"
        if self.beam_size == 1:
            identity = torch.arange(len(new_order), device=new_order.device)
            if len(new_order) < len(self.writers) or not torch.equal(new_order, identity):
                for cache in kv_caches:
                    cache.select(new_order)
        elif self.beam_size == beam_order.old_beam_size == beam_order.new_beam_size:
            for cache in kv_caches:
                if not beam_order.is_identity(cache.num_sentences):
                    cache.select(beam_order.sentences)
        else:
            sentences = torch.div(new_order, self.beam_size, rounding_mode="floor")
            columns = self.columns().index_select(0, new_order)
            for cache in kv_caches:
                # A layer may have removed the first positions from its cache.
                first = columns.size(1) - cache.length // self.beam_size
                own = columns[:, first:] - first * self.beam_size
                cache.select_hypotheses(sentences, own)
            self.beam_size, self.writers = 1, torch.zeros_like(self.writers)
        self.writers = self.writers.index_select(0, new_order)
        if self.padding_mask is not None:
            self.padding_mask = self.padding_mask.index_select(0, new_order)


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

    def filled_cache(self) -> KVCache | None:
        """The key-value cache, or None if there are no columns in one."""
        return self._kv_cache if self._kv_cache is not None and self._kv_cache.length else None

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
