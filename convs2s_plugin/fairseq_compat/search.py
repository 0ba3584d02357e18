"""Faults of fairseq's beam search."""

import functools
from typing import Any

import torch
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator


def number_sentences_by_batch() -> None:
    """Make ``--diverse-beam-groups`` work with more than one batch.

    Its search keeps one row for each sentence of the batch, but looks them up by "id", the number
    of the sentence in the data set.
    """
    original = SequenceGenerator._generate

    @functools.wraps(original)
    def _generate(
        self: SequenceGenerator, sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if isinstance(self.search, DiverseBeamSearch) and torch.is_tensor(sample.get("id")):
            ids = torch.arange(len(sample["id"]), device=sample["id"].device)
            sample = {**sample, "id": ids}
        return original(self, sample, *args, **kwargs)

    SequenceGenerator._generate = _generate
