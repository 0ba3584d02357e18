"""Beam reordering for tensors with one row per sentence."""

import torch
from torch import Tensor


class BeamOrder:
    """The order of the sentences that follows from a new order of their hypotheses.

    Args:
        new_order: R' indices of hypotheses; an index may occur more than once or not at all.
        beam_size: how many consecutive hypotheses belong to each sentence before the reordering.

    Attributes:
        old_beam_size: ``beam_size`` before the reordering.
        new_beam_size: how many consecutive hypotheses belong to each sentence afterwards. It is 1
            if the sentences do not all keep the same number of consecutive hypotheses; every
            hypothesis then needs a row of its own.
        sentences: B' indices: new row i is a copy of old row ``sentences[i]``.
    """

    def __init__(self, new_order: Tensor, beam_size: int):
        sentences = torch.div(new_order, beam_size, rounding_mode="floor")
        unique, counts = torch.unique_consecutive(sentences, return_counts=True)
        self.old_beam_size, self.new_beam_size = beam_size, 1
        self.sentences = sentences
        if counts.numel() and bool((counts == counts[0]).all()):
            self.sentences, self.new_beam_size = unique, int(counts[0])
        identity = torch.arange(len(self.sentences), device=new_order.device)
        self._starts_with_identity = torch.equal(self.sentences, identity)

    def is_identity(self, num_sentences: int) -> bool:
        """Whether all ``num_sentences`` rows stay in place."""
        return self._starts_with_identity and len(self.sentences) == num_sentences

    def select(self, tensor: Tensor) -> Tensor:
        """Reorder a tensor with one row per sentence; copy it only if a row moves or leaves."""
        return tensor if self.is_identity(len(tensor)) else tensor.index_select(0, self.sentences)
