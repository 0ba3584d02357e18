"""How the rows of sentences follow their hypotheses."""

import torch
from torch import Tensor


class BeamOrder:
    """How rows of sentences follow when their hypotheses are reordered.

    Args:
        new_order: R' indices of hypotheses; repetitions are allowed.
        beam_size: how many successive hypotheses share a sentence now.

    Attributes:
        before, beam_size: how many successive hypotheses share one before and after.
    """

    def __init__(self, new_order: Tensor, beam_size: int):
        sentences = torch.div(new_order, beam_size, rounding_mode="floor")
        unique, counts = torch.unique_consecutive(sentences, return_counts=True)
        self.before, self.beam_size = beam_size, 1
        self.sentences = sentences
        if counts.numel() and bool((counts == counts[0]).all()):
            self.sentences, self.beam_size = unique, int(counts[0])
        in_place = torch.arange(len(self.sentences), device=new_order.device)
        self.in_place = torch.equal(self.sentences, in_place)

    def keeps(self, size: int) -> bool:
        """Whether all of ``size`` sentences stay where they are."""
        return self.in_place and len(self.sentences) == size

    def select(self, tensor: Tensor) -> Tensor:
        """The tensor in the new order, copied only where sentences leave or change places."""
        return tensor if self.keeps(len(tensor)) else tensor.index_select(0, self.sentences)
