"""Which sentence pairs are trained on, and batches by source length and by cells."""

import logging

import numpy as np
from fairseq.data import LanguagePairDataset

from ..errors import UserError

logger = logging.getLogger(__name__)


def filter_pairs(
    dataset: LanguagePairDataset,
    indices: np.ndarray,
    max_words: int | None,
    max_ratio: float | None,
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


class Batches(LanguagePairDataset):
    """A data set that makes other batches than fairseq does.

    Attributes:
        equal_lengths: whether the sources of a batch have one length (ConvS2S, section 5.3).
        max_cells: cells of a batch at most, or None: its sentences times its longest source times
            its longest target, ends of sentence included. Where there are no targets, they count
            as long as the sources.
    """

    equal_lengths = False
    max_cells: int | None = None

    @classmethod
    def of(
        cls, dataset: LanguagePairDataset, equal_lengths: bool, max_cells: int | None
    ) -> "Batches":
        """The same sentences; what fairseq has loaded is shared."""
        batches = cls.__new__(cls)
        batches.__dict__.update(dataset.__dict__)
        batches.equal_lengths, batches.max_cells = equal_lengths, max_cells
        return batches

    def lengths(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """N lengths of sources and N of targets, in words with their ends of sentence."""
        target = self.src_sizes if self.tgt_sizes is None else self.tgt_sizes
        return self.src_sizes[indices].astype(np.int64), target[indices].astype(np.int64)

    def without_large_pairs(self, indices: np.ndarray) -> np.ndarray:
        """Leave out the pairs that have too many cells by themselves, and log how many."""
        source, target = self.lengths(indices)
        fits = source * target <= self.max_cells
        if not fits.all():
            logger.warning(
                f"--max-cells {self.max_cells} leaves out {int((~fits).sum()):,} of "
                f"{len(indices):,} pairs"
            )
        return indices[fits]

    def batch_by_size(self, indices: np.ndarray, *limits, **more) -> list[np.ndarray]:
        """fairseq's batches, within the lengths and the cells that are wanted.

        Raises:
            UserError: where one pair by itself has too many cells.
        """
        if self.max_cells is not None and self.tgt_sizes is not None:
            self.check_pairs(indices)
        groups = [indices]
        if self.equal_lengths:
            lengths = self.src_sizes[indices]
            groups = [indices[lengths == length] for length in np.unique(lengths)]
        batches: list[np.ndarray] = []
        for group in groups:
            batches.extend(super().batch_by_size(group, *limits, **more))
        if self.max_cells is None:
            return batches
        return [part for batch in batches for part in self.cut(np.asarray(batch))]

    def check_pairs(self, indices: np.ndarray) -> None:
        """Refuse a pair that has too many cells by itself.

        Raises:
            UserError: with its number and its size.
        """
        source, target = self.lengths(indices)
        cells = source * target
        if not len(indices) or cells.max() <= self.max_cells:
            return
        largest = int(cells.argmax())
        raise UserError(
            f"Pair {indices[largest]} (counted from 0) has {source[largest]} x {target[largest]} = "
            f"{cells[largest]:,} cells, source times target with their ends of sentence, and "
            f"--max-cells {self.max_cells} is less than {(cells > self.max_cells).sum():,} pair(s) "
            "have: give a larger value, or leave such pairs out, of training with "
            "--max-train-words, of other sets with --skip-invalid-size-inputs-valid-test."
        )

    def cut(self, batch: np.ndarray) -> list[np.ndarray]:
        """A batch in parts that have few enough cells, each as large as it can be."""
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
