"""How the sentences of a buffer become batches."""

import random

import pytest

from tests.unit.translation.test_translator import load

LENGTHS = random.Random(1).choices(range(1, 40), k=1500)


def padded(batches):
    """The number of tokens of each batch, with padding and the ends of sentences."""
    return [len(batch) * (1 + max(LENGTHS[number] for number in batch)) for batch in batches]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(
    ("options", "limit"), [({"beam": 5}, 4000), ({"beam": 1}, 10_000), ({"max_tokens": 900}, 900)]
)
def test_they_have_similar_sizes_and_are_as_many_for_each_worker(options, limit, workers):
    batches = load("convs2s", **options).ensemble.batches(LENGTHS, workers)
    assert sorted(sum(batches, [])) == list(range(len(LENGTHS)))
    sizes = padded(batches)
    assert max(sizes) <= limit and min(sizes) > 0.8 * max(sizes)
    least = sum(LENGTHS) / limit
    assert least < len(batches) < least * 1.1 + workers
    # Very small batches are not split.
    assert len(batches) % workers == 0 or limit == 900
    in_order = [[LENGTHS[number] for number in batch] for batch in batches]
    for longer, shorter in zip(in_order, in_order[1:]):
        assert min(longer) >= max(shorter)


def test_little_text_is_one_batch():
    assert len(load("convs2s").ensemble.batches(LENGTHS[:80], workers=4)) == 1


def test_sentences_of_a_batch():
    batches = load("convs2s", batch_size=100).ensemble.batches(LENGTHS)
    assert len(batches) == 15 and set(map(len, batches)) == {100}


def test_no_sentences():
    assert load("convs2s").ensemble.batches([], workers=2) == []
