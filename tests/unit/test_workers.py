"""Gradients of 1, 2 and 4 workers are equal, whatever the shards; a worker that dies ends them."""

from argparse import Namespace
from datetime import timedelta

import pytest
import torch
from torch import distributed

from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask
from tests.support.adapters import dictionary, make
from tests.support.batches import random_batch
from tests.support.commands import call_at_once

# Sentences of each worker; one that has none left in an epoch repeats a batch, which is ignored.
LENGTHS = [(5, 7), (3, 2), (6, 4), (2, 3), (7, 5)]
SHARDS = {
    "1": [[0, 1, 2, 3, 4]],
    "2, unequal": [[0], [1, 2, 3, 4]],
    "2, one is empty": [[0, 1, 2, 3, 4], []],
    "4, one is empty": [[0, 1], [2], [], [3, 4]],
}
MODELS = ("convs2s-residuals", "adl-rnmt", "pervasive", "pervasive-max-attn-gated")


def shard(numbers):
    """A part of the batch, with the padding that it needs."""
    pad = dictionary().pad()
    whole = random_batch(LENGTHS)
    inputs = {name: tokens[numbers] for name, tokens in whole["net_input"].items()}
    target = whole["target"][numbers]
    longest = int(target.ne(pad).sum(dim=1).max())
    inputs["prev_output_tokens"] = inputs["prev_output_tokens"][:, :longest]
    size = int(target.ne(pad).sum())
    return {"net_input": inputs, "target": target[:, :longest], "ntokens": size}


def step(name, numbers):
    """The summed loss of a shard, and the gradients and buffers after it."""
    model = make(name).double()
    criterion = ConvS2SCrossEntropy(Namespace(target_dictionary=dictionary()), False, 0.1)
    task = ConvS2STranslationTask(ConvS2STranslationConfig(), dictionary(), dictionary())
    optimizer = Namespace(backward=torch.Tensor.backward)
    ignored = not numbers
    batch = shard(numbers or [1, 4])
    loss, _, _ = task.train_step(batch, model, criterion, optimizer, 0, ignored)
    gradients = [parameter.grad for parameter in model.parameters()]
    return [loss.detach(), *gradients], dict(model.named_buffers())


def worker(rank, name, shards, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/rendezvous",
        rank=rank,
        world_size=len(shards),
        timeout=timedelta(seconds=300),
    )
    values, buffers = step(name, shards[rank])
    for value in values:
        distributed.all_reduce(value)
    if rank == 0:
        torch.save((values, buffers), f"{folder}/result")
    distributed.destroy_process_group()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shards", [shards for shards in SHARDS if shards != "1"])
def test_gradients_of_workers_equal_those_of_one(name, shards, tmp_path):
    calls = [(rank, name, SHARDS[shards], str(tmp_path)) for rank in range(len(SHARDS[shards]))]
    assert set(call_at_once(worker, calls)) == {0}
    actual = torch.load(tmp_path / "result", weights_only=True)
    torch.testing.assert_close(actual, step(name, SHARDS["1"][0]), rtol=1e-6, atol=1e-9)
