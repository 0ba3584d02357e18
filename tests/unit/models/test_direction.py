"""Networks that predict the last token first: their passes over whole translations."""

import copy

import pytest
import torch

from convs2s.nn.attention import CONTRIBUTIONS, DECODER, ENCODER, SOURCE
from convs2s.nn.state import State
from tests.support.batches import EOS, PAD, random_batch
from tests.support.families import MODELS, make, outputs

LENGTHS = [(7, 5), (3, 9), (11, 2), (2, 1)]


def turned(target):
    """Sentences, T with their end, from right to left, padding at the same places."""
    rows = []
    for row in target:
        places = row.ne(PAD).nonzero().flatten()[:-1]
        rows.append(row.index_copy(0, places, row[places.flip(0)]))
    return torch.stack(rows)


def previous_of(target):
    """The token before each token; the first one is the end of a sentence."""
    rows = []
    for row in target:
        places = row.ne(PAD).nonzero().flatten()
        rows.append(row.index_copy(0, places, row[places].roll(1)))
    return torch.stack(rows)


def both_ways(name):
    """A network from right to left, and the same from left to right."""
    network = make(name, right_to_left=True).double()
    other = copy.deepcopy(network)
    other.decoder.right_to_left = False
    return network, other


@pytest.mark.parametrize("left_pad_target", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_turned_translations_have_the_same_scores(name, left_pad_target):
    batch = random_batch(LENGTHS, left_pad_target=left_pad_target)
    network, other = both_ways(name)
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    assert previous_of(target).equal(batch["net_input"]["prev_output_tokens"])
    backwards = turned(target)
    found, weights = outputs(network, batch["net_input"], target_tokens=target)
    plain, plain_weights = outputs(
        other,
        {"src_tokens": source, "prev_output_tokens": previous_of(backwards)},
        target_tokens=backwards,
    )
    for row, tokens in enumerate(target):
        places = tokens.ne(PAD).nonzero().flatten()
        order = torch.cat([places[:-1].flip(0), places[-1:]])
        torch.testing.assert_close(found[row, places], plain[row, order])
        torch.testing.assert_close(weights[row, places], plain_weights[row, order])


def test_first_tokens_depend_on_the_last_ones():
    network = make("convs2s", right_to_left=True)
    batch = random_batch([(5, 6)])["net_input"]
    changed = batch["prev_output_tokens"].clone()
    changed[0, -1] += 1
    one, _ = outputs(network, batch)
    two, _ = outputs(network, {**batch, "prev_output_tokens": changed})
    differs = (one != two).any(dim=2)[0].tolist()
    # The last token itself is predicted from the start alone, and the end from all tokens.
    assert differs == [True, True, True, True, False, True]


@pytest.mark.parametrize("name", ["adl-transformer", "pervasive-max-attn-gated"])
def test_attention_maps_have_the_order_of_the_tokens(name):
    batch = random_batch(LENGTHS[:2])
    network, other = both_ways(name)
    source, target = batch["net_input"]["src_tokens"], batch["target"]
    maps = network.attention_maps(source, previous_of(target), target)
    backwards = turned(target)
    plain = other.attention_maps(source, previous_of(backwards), backwards)
    assert [found.name for found in maps] == [found.name for found in plain]
    kinds = {found.kind for found in maps}
    assert kinds in ({SOURCE, ENCODER, DECODER}, {SOURCE, CONTRIBUTIONS})
    for found, expected in zip(maps, plain):
        for row, tokens in enumerate(target):
            number = int(tokens.ne(PAD).sum())
            rows = torch.tensor([*range(number - 2, -1, -1), number - 1])
            columns = torch.tensor([0, *range(number - 1, 0, -1)])
            weights = expected.weights[row]
            if found.kind != ENCODER:
                weights = weights[:, rows]
            if found.kind == DECODER:
                weights = weights[:, :, columns]
            own = found.weights[row]
            if found.kind != ENCODER:
                own = own[:, :number]
            if found.kind == DECODER:
                own = own[:, :, :number]
            torch.testing.assert_close(own, weights)


def test_the_step_form_starts_with_the_last_token():
    network, _ = both_ways("adl-rnmt")
    batch = random_batch([(5, 4)])
    target = batch["target"]
    encoded = network.encode(batch["net_input"]["src_tokens"])
    whole = network.decode(batch["net_input"]["prev_output_tokens"], encoded)[0]
    state, tokens = State(), [EOS, *target[0, :-1].flip(0).tolist()]
    steps = [
        network.decode(torch.tensor([tokens[: length + 1]]), encoded, state)[0][0, -1]
        for length in range(4)
    ]
    torch.testing.assert_close(torch.stack([steps[2], steps[1], steps[0], steps[3]]), whole[0])
