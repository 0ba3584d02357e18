"""``--max-cells``: no batch has a larger grid than the option allows."""

import re

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset

from convs2s_plugin.errors import UserError
from convs2s_plugin.fairseq_compat.messages import user_message
from convs2s_plugin.tasks.batches import BatchingDataset
from tests.commands import generate, hypotheses, refused, run, train, train_arguments
from tests.helpers import dictionary
from tests.integration.test_pervasive_fairseq import TINY
from tests.integration.test_translation_task import OURS, pairs

SIZES = [(1 + i * i % 19, 1 + i * 7 % 23) for i in range(200)]


def cells(dataset, batch):
    """The size of the grid of a batch as the model gets it."""
    sample = dataset.collater([dataset[int(i)] for i in batch])
    source = sample["net_input"]["src_tokens"]
    target = sample["net_input"].get("prev_output_tokens", source)
    return len(source) * source.size(1) * target.size(1)


@pytest.mark.parametrize("equal_lengths", [False, True])
@pytest.mark.parametrize("limits", [dict(max_sentences=16), dict(max_tokens=100), {}])
def test_every_sentence_is_in_one_batch_that_is_small_enough(limits, equal_lengths):
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


def test_a_pair_that_is_too_large_is_named():
    dataset = BatchingDataset.wrap(pairs([(3, 4), (24, 49), (29, 39), (5, 5)]), False, 1000)
    order = dataset.ordered_indices()
    with pytest.raises(UserError) as error:
        dataset.batch_by_size(order, max_sentences=4)
    said = str(error.value)
    assert "Pair 1 (counted from 0) has 25 x 50 = 1,250 cells" in said
    assert "--max-cells 1000 is less than 2 pair(s) have" in said and "--max-train-words" in said
    left = dataset.remove_large_pairs(order)
    assert sorted(left) == [0, 3]
    assert [list(batch) for batch in dataset.batch_by_size(left, max_sentences=4)] == [[0, 3]]


def test_sentences_without_translation_count_as_long_as_they_are_and_are_never_refused():
    symbols = dictionary()
    sentences = [torch.tensor([4] * size + [symbols.eos()]) for size in (9, 9, 9, 49, 49)]
    plain = LanguagePairDataset(sentences, np.array([len(s) for s in sentences]), symbols)
    batches = BatchingDataset.wrap(plain, False, 200).batch_by_size(np.arange(5), max_sentences=8)
    assert [list(batch) for batch in batches] == [[0, 1], [2], [3], [4]]


def updates(log):
    return int(re.findall(r"num_updates (\d+)", log)[-1])


def test_training_validation_and_generation(corpus, tmp_path):
    arguments = ("--max-epoch", "1", "--num-layers", "2", "--batch-size", "24")
    without = train(corpus, tmp_path / "without", *arguments, "--no-save", options=TINY)
    log = train(corpus, tmp_path, *arguments, "--max-cells", "200", options=TINY)
    # Sentences have 2 to 7 words and an end on either side.
    assert updates(without) == 10 and updates(log) >= 2 * 10
    words = re.compile(r"valid on .*? \| wpb ([\d.]+)")
    assert float(words.search(log).group(1)) < float(words.search(without).group(1))
    path = tmp_path / "checkpoint_last.pt"
    found = hypotheses(generate(corpus, path, *OURS, "--max-cells", "64"))
    assert sorted(found) == list(range(24))
    with pytest.raises(UserError, match="8 x 8 = 64 cells"):
        generate(corpus, path, *OURS, "--max-cells", "63")
    skip = "--skip-invalid-size-inputs-valid-test"
    lines = (corpus / "test.de").read_text("utf-8").splitlines()
    found = hypotheses(generate(corpus, path, *OURS, "--max-cells", "63", skip))
    assert sorted(found) == [i for i, line in enumerate(lines) if len(line.split()) < 7]


@pytest.mark.parametrize(
    "limit, said",
    [("20", "8 x 8 = 64 cells (source length times"), ("0", "--max-cells is 0, but must be")],
)
def test_a_training_that_cannot_be_is_refused_with_a_sentence(corpus, tmp_path, limit, said):
    done = run(
        "train",
        *train_arguments(corpus, tmp_path, "--max-cells", limit, options=TINY),
    )
    assert said in refused(done)


def test_memory_that_is_not_there_is_a_sentence_with_the_options():
    with pytest.raises(RuntimeError) as error:
        torch.empty(10**17, dtype=torch.int8)
    said = user_message(error.value)
    assert "not enough memory: 100000000000000000 bytes more" in said and "--max-cells" in said
    cuda = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 1.00 GiB free)")
    assert "not enough memory: 2.00 GiB more" in user_message(cuda)
    assert user_message(RuntimeError("shapes cannot be multiplied")) is None
