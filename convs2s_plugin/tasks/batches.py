"""Which sentence pairs are trained on, and batches whose sources have one length."""

import logging
from typing import List, Optional

import numpy as np
from fairseq.data import LanguagePairDataset

from ..errors import UserError

logger = logging.getLogger(__name__)


def filter_pairs(
    dataset: LanguagePairDataset,
    indices: np.ndarray,
    max_words: Optional[int],
    max_ratio: Optional[float],
) -> np.ndarray:
    """Leave out long pairs and pairs of very different lengths, and log how many.

    Lengths are in words (or pieces of words) as binarised, without the end of sentence.

    Args:
        dataset: the training set.
        indices: N indices of its pairs.
        max_words: words of either side that a pair may have (ConvS2S, section 4.1: 175), or None.
        max_ratio: how many times as long one side may be (ConvS2S, section 4.1: 1.5), or None.
    Raises:
        UserError: where no pair is left.
    """
    source, target = dataset.src_sizes[indices] - 1, dataset.tgt_sizes[indices] - 1
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    kept = np.ones(len(indices), dtype=bool)
    for option, limit, fits in (
        ("--max-train-words", max_words, lambda limit: longer <= limit),
        ("--max-length-ratio", max_ratio, lambda limit: longer <= limit * shorter),
    ):
        if limit is None:
            continue
        fitting = fits(limit)
        removed = int((kept & ~fitting).sum())
        kept &= fitting
        logger.info(f"{option} {limit} removes {removed:,} of {len(indices):,} training pairs")
    if len(indices) and not kept.any():
        raise UserError(
            f"--max-train-words {max_words} and --max-length-ratio {max_ratio} leave none of the "
            f"{len(indices):,} training pairs: give larger values."
        )
    return indices[kept]


class EqualLengths(LanguagePairDataset):
    """A data set in batches whose sources have one length (ConvS2S, section 5.3)."""

    @classmethod
    def of(cls, dataset: LanguagePairDataset) -> "EqualLengths":
        """The same sentences; what fairseq has loaded is shared."""
        grouped = cls.__new__(cls)
        grouped.__dict__.update(dataset.__dict__)
        return grouped

    def batch_by_size(self, indices: np.ndarray, *limits, **more) -> List[np.ndarray]:
        """fairseq's batches, made of the sentences of each source length by themselves."""
        lengths = self.src_sizes[indices]
        batches: List[np.ndarray] = []
        for length in np.unique(lengths):
            batches.extend(super().batch_by_size(indices[lengths == length], *limits, **more))
        return batches
