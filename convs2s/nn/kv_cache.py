"""Key-value cache of self-attention that is not copied when a beam is reordered.

All hypotheses of a sentence write into one row of the cache, position after position. Backpointers
record which hypothesis wrote each position of a hypothesis' past. Beam reordering changes the
backpointers alone; the attention mask that they give selects the past of each hypothesis.
"""

import torch
from torch import Tensor

from .beam_order import BeamOrder

# Capacity of a new buffer, in decoding steps.
INITIAL_STEPS = 16


class KVCache:
    """Keys and values of one self-attention layer, for all hypotheses of each sentence.

    A column of the cache holds the key and the value that one hypothesis wrote for one position:
    column t * beam_size + j comes from hypothesis j of the sentence.

    Attributes:
        keys: buffer B x h x N x E for h heads and N >= ``length`` columns; None if empty.
        values: buffer B x h x N x E'; None if empty.
        length: the number of columns that are filled.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.length = 0

    @property
    def num_sentences(self) -> int:
        """B."""
        return len(self.contents()[0])

    def contents(self) -> tuple[Tensor, Tensor]:
        """All keys B x h x L x E and all values B x h x L x E', views of the buffers."""
        assert self.keys is not None and self.values is not None, "the cache is empty"
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append n columns.

        Args:
            keys: B x h x n x E.
            values: B x h x n x E'.
        Returns:
            All keys B x h x L x E and all values B x h x L x E', the new columns last. They are
            views of the buffers unless gradients are enabled.
        """
        start, self.length = self.length, self.length + keys.size(2)
        self.keys = _write(self.keys, keys, start)
        self.values = _write(self.values, values, start)
        return self.contents()

    def select(self, sentences: Tensor) -> None:
        """Reorder the sentences: sentence i becomes a copy of sentence ``sentences[i]``."""
        keys, values = self.contents()
        self.keys, self.values = keys.index_select(0, sentences), values.index_select(0, sentences)

    def select_hypotheses(self, sentences: Tensor, columns: Tensor) -> None:
        """Copy the past of each hypothesis to a row of its own.

        Args:
            sentences: R, the sentence of each hypothesis.
            columns: R x T, the columns of the hypothesis' past, one per position.
        """
        self.select(sentences)
        keys, values = self.contents()
        self.keys, self.values = _gather(keys, columns), _gather(values, columns)
        self.length = columns.size(1)


def _write(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """Write ``new`` at column ``start``; return the buffer, which grows by doubling.

    If gradients are enabled, nothing is written in place.
    """
    if torch.is_grad_enabled():
        return new if buffer is None else torch.cat([buffer[:, :, :start], new], dim=2)
    end = start + new.size(2)
    if buffer is None or buffer.size(2) < end:
        capacity = max(2 * start, INITIAL_STEPS * new.size(2), end)
        grown = new.new_empty(*new.shape[:2], capacity, new.size(3))
        if buffer is not None:
            grown[:, :, :start] = buffer[:, :, :start]
        buffer = grown
    buffer[:, :, start:end] = new
    return buffer


def _gather(buffer: Tensor, columns: Tensor) -> Tensor:
    """R x h x T x E: the columns R x T of a buffer R x h x N x E."""
    index = columns[:, None, :, None].expand(-1, buffer.size(1), -1, buffer.size(3))
    return buffer.gather(2, index)


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
                cache.select_hypotheses(sentences, columns)
            self.beam_size, self.writers = 1, torch.zeros_like(self.writers)
        self.writers = self.writers.index_select(0, new_order)
        if self.padding_mask is not None:
            self.padding_mask = self.padding_mask.index_select(0, new_order)
