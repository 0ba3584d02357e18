"""Key-value cache of self-attention that is not copied when a beam is reordered.

All hypotheses of a sentence write into one row of the cache, position after position. Backpointers
(``state``) record which hypothesis wrote each position of a hypothesis' past. Beam reordering
changes only the backpointers; the attention mask that they give selects the past of each
hypothesis.
"""

import torch
from torch import Tensor

# Capacity of a new buffer, in decoding steps, and the most columns for steps to come.
INITIAL_STEPS = 16
SPARE = 256


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

    def clear(self) -> None:
        """Remove all columns."""
        self.length = 0

    def select(self, sentences: Tensor) -> None:
        """Reorder the sentences: sentence i becomes a copy of sentence ``sentences[i]``."""
        assert self.keys is not None and self.values is not None, "the cache is empty"
        # With the free columns of the buffers: without them, the next step would copy once more.
        self.keys, self.values = (x.index_select(0, sentences) for x in (self.keys, self.values))

    def select_hypotheses(self, sentences: Tensor, columns: Tensor) -> None:
        """Copy the past of each hypothesis to a row of its own.

        Args:
            sentences: R, the sentence of each hypothesis.
            columns: R x T, the columns of the hypothesis' past, one per position.
        """
        keys, values = (x.index_select(0, sentences) for x in self.contents())
        self.keys, self.values = _gather(keys, columns), _gather(values, columns)
        self.length = columns.size(1)


def _write(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """Write ``new`` at column ``start``; return the buffer, which grows by doubling.

    If gradients are enabled, or if a graph is made, nothing is written in place.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return new if buffer is None else torch.cat([buffer[:, :, :start], new], dim=2)
    end = start + new.size(2)
    if buffer is None or buffer.size(2) < end:
        capacity = max(2 * start, min(INITIAL_STEPS * new.size(2), end + SPARE), end)
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
