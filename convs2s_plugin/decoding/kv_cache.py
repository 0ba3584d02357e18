"""Keys and values of self-attention in a beam search, which are written once and never copied.

The hypotheses of a sentence descend from each other: what one of them remembers of a position was
written by one hypothesis of the same sentence. All that the hypotheses of a sentence have written
lies in one row, position after position, and each hypothesis knows which of it is its own past. A
beam is reordered by reordering that knowledge alone.
"""

import torch
from torch import Tensor

from .beam_order import BeamOrder

AT_FIRST = 16


class KVCache:
    """What all hypotheses of each sentence have written: B x h x (L * beam) x E."""

    def __init__(self) -> None:
        self.buffer: Tensor | None = None
        self.length = 0

    def append(self, new: Tensor) -> Tensor:
        """Add B x h x n x E, and return all that there is.

        Where gradients are wanted, nothing is written in place.
        """
        start, self.length = self.length, self.length + new.size(2)
        if torch.is_grad_enabled():
            self.buffer = new if start == 0 else torch.cat([self.buffer[:, :, :start], new], dim=2)
            return self.buffer
        if self.buffer is None or self.buffer.size(2) < self.length:
            size = max(2 * start, AT_FIRST * new.size(2), self.length)
            grown = new.new_empty(*new.shape[:2], size, new.size(3))
            if start:
                grown[:, :, :start] = self.buffer[:, :, :start]
            self.buffer = grown
        self.buffer[:, :, start : self.length] = new
        return self.buffer[:, :, : self.length]

    def select(self, sentences: Tensor) -> None:
        """Let sentence i be what ``sentences[i]`` was."""
        self.buffer = self.buffer[:, :, : self.length].index_select(0, sentences)

    def separate(self, sentences: Tensor, columns: Tensor) -> None:
        """Give each hypothesis a row of its own.

        Args:
            sentences: R, the sentence of each hypothesis.
            columns: R x L, which columns of its sentence are its past.
        """
        self.select(sentences)
        index = columns[:, None, :, None]
        shape = (-1, self.buffer.size(1), -1, self.buffer.size(3))
        self.buffer = self.buffer.gather(2, index.expand(*shape))
        self.length = columns.size(1)


class Backpointers:
    """Which hypothesis of its sentence wrote each position of a hypothesis' past.

    Args:
        beam: how many successive hypotheses belong to a sentence.
    """

    def __init__(self, beam: int):
        self.beam = beam
        self.writers: Tensor | None = None
        self.padding: Tensor | None = None

    def extend(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor | None:
        """Add positions, which every hypothesis writes for itself.

        Args:
            tokens: R x T, for the size and the device.
            padding: R x T, True at padding before the words; None where there has been none.
        Returns:
            B x 1 x (beam * T) x (L * beam), True where a position may be seen; None where
            everything may.
        """
        rows, steps = tokens.shape
        own = torch.arange(rows, device=tokens.device) % self.beam
        own = own.unsqueeze(1).expand(-1, steps)
        self.writers = own if self.writers is None else torch.cat([self.writers, own], dim=1)
        if padding is not None:
            before = self.padding
            self.padding = padding if before is None else torch.cat([before, padding], dim=1)
        length = self.writers.size(1)
        if self.beam == steps == 1 and self.padding is None:
            return None
        seen = torch.ones(steps, length, dtype=torch.bool, device=tokens.device)
        seen = seen.tril(length - steps).expand(rows, -1, -1)
        if self.padding is not None:
            # A position always sees itself, so that no softmax runs over nothing.
            itself = torch.eye(length, dtype=torch.bool, device=tokens.device)[-steps:]
            seen = seen & (~self.padding.unsqueeze(1) | itself)
        writers = torch.arange(self.beam, device=tokens.device)
        mine = self.writers.unsqueeze(2) == writers
        visible = seen.unsqueeze(3) & mine.unsqueeze(1)
        return visible.reshape(rows // self.beam, 1, self.beam * steps, length * self.beam)

    def columns(self) -> Tensor:
        """R x L, where a hypothesis' past lies in the row of its sentence."""
        positions = torch.arange(self.writers.size(1), device=self.writers.device)
        return positions * self.beam + self.writers

    def reorder_(self, new_order: Tensor, order: BeamOrder, kv_caches: list[KVCache]) -> None:
        """Let hypothesis i be what ``new_order[i]`` was.

        Args:
            new_order: R' indices of hypotheses.
            order: the same of their sentences.
            kv_caches: all that follow this backpointers.
        """
        if self.beam == 1:
            in_place = torch.arange(len(new_order), device=new_order.device)
            if len(new_order) < len(self.writers) or not torch.equal(new_order, in_place):
                for history in kv_caches:
                    history.select(new_order)
        elif self.beam == order.before == order.beam_size:
            for history in kv_caches:
                if not order.keeps(len(history.buffer)):
                    history.select(order.sentences)
        else:
            sentences = torch.div(new_order, self.beam, rounding_mode="floor")
            columns = self.columns().index_select(0, new_order)
            for history in kv_caches:
                history.separate(sentences, columns)
            self.beam, self.writers = 1, torch.zeros_like(self.writers)
        self.writers = self.writers.index_select(0, new_order)
        if self.padding is not None:
            self.padding = self.padding.index_select(0, new_order)
