"""The encoder of all families."""

from typing import Any

from fairseq.models import FairseqEncoder
from torch import Tensor

from ..decoding.state import reorder_encoder_output
from ..nn.embedding import Embedding


class PluginEncoder(FairseqEncoder):
    """An encoder whose output is shared by the hypotheses of a beam (see modules/state.py).

    Args:
        dictionary: of the source.
        embed: its word vectors.
        longest: words in the longest source, end of sentence included.
    """

    def __init__(self, dictionary, embed: Embedding, longest: int):
        super().__init__(dictionary)
        self.embed = embed
        self.longest = longest

    def max_positions(self) -> int:
        """Words in the longest source, end of sentence included."""
        return self.longest

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        """A new dictionary whose row i is hypothesis ``new_order[i]``; the argument stays."""
        return reorder_encoder_output(encoder_out, new_order)
