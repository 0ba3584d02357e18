"""Batches of equal lengths, batches with a limited number of cells, and length filters."""

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset

from convs2s.common.errors import UserError
from convs2s_plugin.tasks.batches import BatchingDataset, filter_pairs
from tests.support.adapters import dictionary


def pairs(sizes, **options):
    """A dataset of sentences with these lengths, end of sentence excluded."""
    symbols = dictionary()

    def text(side):
        return [torch.tensor([4] * size[side] + [symbols.eos()]) for size in sizes]

    sides = []
    for side in range(2):
        sentences = text(side)
        sides += [sentences, np.array([len(s) for s in sentences]), symbols]
    return LanguagePairDataset(*sides, **options)


def test_length_filters(caplog):
    dataset = pairs([(3, 2), (3, 3), (6, 4), (7, 4), (4, 7), (9, 9), (2, 0)])
    indices = np.arange(7)
    with caplog.at_level("INFO"):
        kept = filter_pairs(dataset, indices, 8, 1.5)
    assert kept.tolist() == [0, 1, 2]
    assert "--max-train-words 8 removes 1 of 7 training pairs" in caplog.text
    assert "--max-length-ratio 1.5 removes 3 of 7 training pairs" in caplog.text
    assert filter_pairs(dataset, indices, None, None).tolist() == indices.tolist()
    assert filter_pairs(dataset, indices, 3, None).tolist() == [0, 1, 6]
    with pytest.raises(UserError, match="^--max-train-words 0 leaves none of the 7"):
        filter_pairs(dataset, indices, 0, None)
    with pytest.raises(UserError, match="--max-length-ratio 1.5 leave none of the 7"):
        filter_pairs(dataset, indices, 0, 1.5)


def test_batches_of_one_length_hold_every_sentence_once():
    dataset = BatchingDataset.wrap(pairs([(1 + i % 5, 3) for i in range(103)]), True, None)
    batches = dataset.batch_by_size(
        dataset.ordered_indices(), max_sentences=8, required_batch_size_multiple=8
    )
    assert sorted(np.concatenate(batches)) == list(range(103))
    for batch in batches:
        assert len(set(dataset.src_sizes[batch])) == 1 and len(batch) <= 8
        tokens = dataset.collater([dataset[int(i)] for i in batch])["net_input"]["src_tokens"]
        assert not tokens.eq(dictionary().pad()).any()


SIZES = [(1 + i * i % 19, 1 + i * 7 % 23) for i in range(200)]


def cells(dataset, batch):
    """The number of cells of the grid of a batch."""
    sample = dataset.collater([dataset[int(i)] for i in batch])
    source = sample["net_input"]["src_tokens"]
    target = sample["net_input"].get("prev_output_tokens", source)
    return len(source) * source.size(1) * target.size(1)


@pytest.mark.parametrize("equal_lengths", [False, True])
@pytest.mark.parametrize("limits", [dict(max_sentences=16), dict(max_tokens=100), {}])
def test_every_sentence_is_in_one_batch_within_the_limits(limits, equal_lengths):
    plain, limit = pairs(SIZES), 700
    order = plain.ordered_indices()
    theirs = plain.batch_by_size(order, required_batch_size_multiple=8, **limits)
    assert max(cells(plain, batch) for batch in theirs) > 2 * limit
    dataset = BatchingDataset.wrap(plain, equal_lengths, limit)
    batches = dataset.batch_by_size(order, required_batch_size_multiple=8, **limits)
    assert np.concatenate(batches).tolist() == order.tolist()
    assert all(cells(dataset, batch) <= limit for batch in batches)
    assert all(len(batch) <= limits.get("max_sentences", 200) for batch in batches)
    if not limits and not equal_lengths:
        for batch, following in zip(batches, batches[1:]):
            assert cells(dataset, [*batch, following[0]]) > limit


def test_a_pair_with_too_many_cells_is_named():
    dataset = BatchingDataset.wrap(pairs([(3, 4), (24, 49), (29, 39), (5, 5)]), False, 1000)
    order = dataset.ordered_indices()
    with pytest.raises(UserError) as error:
        dataset.batch_by_size(order, max_sentences=4)
    said = str(error.value)
    assert "Pair 1 (counted from 0) has 25 x 50" in said
    assert "--max-cells 1000 is less than 2 pair(s) have" in said and "--max-train-words" in said
    left = dataset.remove_large_pairs(order)
    assert sorted(left) == [0, 3]
    assert BatchingDataset.wrap(dataset, False, 4 * 5).remove_large_pairs(order).tolist() == [0]
    assert [list(batch) for batch in dataset.batch_by_size(left, max_sentences=4)] == [[0, 3]]


def test_without_targets_the_source_length_counts_for_both():
    symbols = dictionary()
    sentences = [torch.tensor([4] * size + [symbols.eos()]) for size in (9, 9, 9, 49, 49)]
    plain = LanguagePairDataset(sentences, np.array([len(s) for s in sentences]), symbols)
    batches = BatchingDataset.wrap(plain, False, 200).batch_by_size(np.arange(5), max_sentences=8)
    assert [list(batch) for batch in batches] == [[0, 1], [2], [3], [4]]
