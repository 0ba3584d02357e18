"""How often a pass, and a step of beam search, wait for the device."""

import pytest
import torch

from convs2s.nn import linear_attention
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from convs2s.translation import search
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from tests.support.batches import SYMBOLS, random_batch
from tests.support.families import MODELS, make
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
        lambda x: x.cpu().numpy(),
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


def test_only_a_cpu_looks_at_decays():
    # Values on the device "meta" cannot be read.
    decays = torch.zeros(1, 1, 1, 8, 4)
    assert linear_attention._precision(decays) == torch.float32
    assert linear_attention._precision(decays.to("meta")) == torch.float64


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_pass_reads_twice(name, left_pad, monkeypatch):
    # As on an accelerator
    monkeypatch.setattr(linear_attention, "_is_readable", lambda _: False)
    model = make(name).train()
    batch = random_batch([(7, 5), (3, 4)], left_pad_source=left_pad)["net_input"]
    with counted_synchronizations() as counts:
        model(batch["src_tokens"], batch["prev_output_tokens"])
    # Layers in ADL below the grid of pervasive attention read what they must know of padding.
    limit = 2
    if name.startswith("pervasive"):
        limit += sum(side.layers is not None for side in (model.encoder, model.decoder))
    assert counts.total() <= limit, counts


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


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_beam_search_reads_three_times(name, beam, is_small, monkeypatch):
    model = NetworkModel(make(name))
    source = random_batch([(7, 5), (3, 5), (5, 2)])["net_input"]["src_tokens"]
    monkeypatch.setattr(search, "MIN_SCORES", 2**14 if is_small else 0)
    reads, rows, step = [], set(), search.next_tokens

    def counted(decodings, tokens, *arguments):
        reads.append(counts.total())
        rows.add(len(tokens))
        return step(decodings, tokens, *arguments)

    monkeypatch.setattr(search, "next_tokens", counted)
    # Sentences have limits of their own: some leave before the others.
    options = SearchOptions(beam=beam, max_len_a=1, max_len_b=1)
    with counted_synchronizations() as counts:
        beam_search([model], source, SYMBOLS, options)
    of_steps = [after - before for before, after in zip(reads, [*reads[1:], counts.total()])]
    first, *later = of_steps
    # Layers in ADL below the grid of pervasive attention look for padding in the first step.
    assert first <= 4 and max(later, default=0) <= 3, of_steps
    assert len(rows) > 1 or name in ("bag-of-words-shared", "convs2s-no-target-positions")
