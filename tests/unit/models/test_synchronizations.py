"""How often a pass waits for the device: once in the encoder, once in the decoder."""

import pytest
import torch

from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from tests.support.batches import random_batch
from tests.support.families import ADL, CONVS2S, make
from tests.support.synchronizations import counted_synchronizations


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.tolist(),
        lambda x: bool(x.any()),
        lambda x: int(x.max()),
        lambda x: float(x[0]),
        lambda x: x[0].item(),
        lambda x: torch.equal(x, x),
        lambda x: x[x > 1],
        lambda x: torch.where(x > 1),
        lambda x: x.masked_select(x > 1),
        lambda x: x.unique(),
        lambda x: x.numpy(),
    ],
)
def test_every_read_is_counted(read):
    with counted_synchronizations() as counts:
        read(torch.tensor([1, 2, 3]))
    assert counts.total() == 1


def test_what_stays_on_the_device_is_not_counted():
    x = torch.tensor([1, 2, 3])
    with counted_synchronizations() as counts:
        x[x.argsort()].clamp(max=2).masked_fill(x > 1, 0).sum()
    assert counts.total() == 0


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("name", [*CONVS2S, *ADL])
def test_a_training_pass_reads_twice(name, left_pad):
    model = make(name).train()
    batch = random_batch([(7, 5), (3, 4)], left_pad_source=left_pad)["net_input"]
    with counted_synchronizations() as counts:
        model(batch["src_tokens"], batch["prev_output_tokens"])
    assert counts.total() <= 2, counts


@pytest.mark.parametrize("name", ["convs2s", "adl-transformer"])
@torch.no_grad()
def test_steps_of_generation_after_the_first_read_nothing(name):
    model = make(name)
    batch = random_batch([(7, 5), (3, 5)])["net_input"]
    encoded, state = model.encode(batch["src_tokens"]), State()
    tokens = batch["prev_output_tokens"]
    model.decode(tokens[:, :1], encoded, state)
    with counted_synchronizations() as counts:
        for length in (2, 3, 4):
            model.decode(tokens[:, :length], encoded, state)
    assert counts.total() == 0, counts


@torch.no_grad()
@pytest.mark.parametrize("name", ["convs2s", "adl-transformer", "adl-rnmt"])
def test_hypotheses_with_padding_may_end_before_those_without(name):
    model = make(name).double()
    batch = random_batch([(5, 4), (3, 6)], left_pad_target=True)["net_input"]
    tokens, state = batch["prev_output_tokens"], State()
    encoded = model.encode(batch["src_tokens"])
    expected, _ = model.decode(tokens, encoded)
    for length in range(1, 7):
        if length == 4:
            rest = torch.tensor([1])
            state.reorder_(rest)
            encoded = reorder_encoder_output(encoded, BeamOrder(rest, 1))
            tokens, expected = tokens[1:], expected[1:]
        step, _ = model.decode(tokens[:, :length], encoded, state)
        torch.testing.assert_close(step[-1, -1], expected[-1, length - 1], atol=1e-10, rtol=1e-10)
