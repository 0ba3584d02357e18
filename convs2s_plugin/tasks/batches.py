"""Selection of training pairs, and batches limited by source length and by grid cells."""

import logging
from typing import Any

import numpy as np
from fairseq.data import LanguagePairDataset

from convs2s.common.errors import UserError

logger = logging.getLogger(__name__)


def filter_pairs(
    dataset: LanguagePairDataset,
    indices: np.ndarray,
    max_tokens: int | None,
    max_ratio: float | None,
) -> np.ndarray:
    """Remove long pairs and pairs of very different lengths, and log how many.

    Lengths are numbers of tokens without the end of sentence.

    Args:
        dataset: the training set.
        indices: N indices of sentence pairs.
        max_tokens: largest length of either side (ConvS2S, section 4.1: 175), or None.
        max_ratio: largest ratio of the lengths (ConvS2S, section 4.1: 1.5), or None.
    Returns:
        The indices of the remaining pairs; all if there are no translations.
    Raises:
        UserError: if no pair remains.
    """
    if dataset.tgt_sizes is None:
        return indices
    source, target = dataset.src_sizes[indices] - 1, dataset.tgt_sizes[indices] - 1
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    kept = np.ones(len(indices), dtype=bool)
    given = []
    for option, limit, fits in (
        ("--max-train-words", max_tokens, lambda limit: longer <= limit),
        ("--max-length-ratio", max_ratio, lambda limit: longer <= limit * shorter),
    ):
        if limit is None:
            continue
        given.append(f"{option} {limit}")
        fitting = fits(limit)
        num_removed = int((kept & ~fitting).sum())
        kept &= fitting
        logger.info(f"{option} {limit} removes {num_removed:,} of {len(indices):,} training pairs")
    if len(indices) and not kept.any():
        leave, larger = (
            ("leaves", "a larger value") if len(given) == 1 else ("leave", "larger values")
        )
        raise UserError(
            f"{' and '.join(given)} {leave} none of the {len(indices):,} training pairs: give "
            f"{larger}."
        )
    return indices[kept]


class BatchingDataset(LanguagePairDataset):
    """A LanguagePairDataset with additional constraints on batches.

    Attributes:
        equal_lengths: whether all sources of a batch have the same length (ConvS2S, section 5.3).
        max_cells: largest number of grid cells in a batch: sentences times the longest source
            times the longest target, ends of sentence included; None for any number. If there are
            no targets, they are assumed to be as long as the sources.
    """

    equal_lengths = False
    max_cells: int | None = None

    @classmethod
    def wrap(
        cls, dataset: LanguagePairDataset, equal_lengths: bool, max_cells: int | None
    ) -> "BatchingDataset":
        """Create a dataset with the sentences of another one, without copying them."""
        wrapped = cls.__new__(cls)
        wrapped.__dict__.update(dataset.__dict__)
        wrapped.equal_lengths, wrapped.max_cells = equal_lengths, max_cells
        return wrapped

    def lengths(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """N source lengths and N target lengths in tokens, ends of sentence included."""
        target = self.src_sizes if self.tgt_sizes is None else self.tgt_sizes
        return self.src_sizes[indices].astype(np.int64), target[indices].astype(np.int64)

    def remove_large_pairs(self, indices: np.ndarray) -> np.ndarray:
        """Remove the pairs that have more than ``max_cells`` cells, and log how many."""
        source, target = self.lengths(indices)
        fits = source * target <= self.max_cells
        if not fits.all():
            logger.warning(
                f"--max-cells {self.max_cells} removes {int((~fits).sum()):,} of {len(indices):,} "
                "pairs"
            )
        return indices[fits]

    def batch_by_size(self, indices: np.ndarray, *limits: Any, **options: Any) -> list[np.ndarray]:
        """Make batches as fairseq does, within the additional constraints.

        Args:
            indices: N indices of sentence pairs.
            limits, options: as in fairseq.
        Raises:
            UserError: if a single pair has more than ``max_cells`` cells.
        """
        if self.max_cells is not None and self.tgt_sizes is not None:
            self._check_pairs(indices)
        groups = [indices]
        if self.equal_lengths:
            lengths = self.src_sizes[indices]
            groups = [indices[lengths == length] for length in np.unique(lengths)]
        batches: list[np.ndarray] = []
        for group in groups:
            batches.extend(super().batch_by_size(group, *limits, **options))
        if self.max_cells is None:
            return batches
        return [part for batch in batches for part in self._split(np.asarray(batch))]

    def _check_pairs(self, indices: np.ndarray) -> None:
        """Check that no single pair has more than ``max_cells`` cells."""
        source, target = self.lengths(indices)
        cells = source * target
        if not len(indices) or cells.max() <= self.max_cells:
            return
        largest = int(cells.argmax())
        raise UserError(
            f"Pair {indices[largest]} (counted from 0) has {source[largest]} x {target[largest]} = "
            f"{cells[largest]:,} cells (source length times target length, ends of sentence "
            f"included). --max-cells {self.max_cells} is less than "
            f"{(cells > self.max_cells).sum():,} pair(s) have: give a larger value, or remove such "
            "pairs: from training with --max-train-words, from other data sets with "
            "--skip-invalid-size-inputs-valid-test."
        )

    def _split(self, batch: np.ndarray) -> list[np.ndarray]:
        """Split a batch into parts of at most ``max_cells`` cells, each as large as possible."""
        parts: list[np.ndarray] = []
        start = longest_source = longest_target = 0
        source, target = (lengths.tolist() for lengths in self.lengths(batch))
        for end in range(len(batch)):
            longest_source = max(longest_source, source[end])
            longest_target = max(longest_target, target[end])
            cells = (end - start + 1) * longest_source * longest_target
            if cells > self.max_cells and end > start:
                parts.append(batch[start:end])
                start, longest_source, longest_target = end, source[end], target[end]
        return [*parts, batch[start:]]
