"""Search with models from left to right, from right to left, and both."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.directions import search
from convs2s.translation.options import SearchOptions
from tests.support.batches import EOS, SYMBOLS, random_batch
from tests.support.families import MODELS, make, outputs

SOURCE = random_batch([(7, 1), (3, 1), (11, 1)])["net_input"]["src_tokens"]
OPTIONS = SearchOptions(beam=4, max_len_b=6)


def network_of(name, right_to_left, seed=1):
    torch.manual_seed(seed)
    network = make(name, right_to_left=right_to_left).double()
    # Weights far from zero: translations that differ.
    for weight in network.parameters():
        weight.data.mul_(1.3)
    return network


def plain_pass(network, row, tokens):
    """Log-probabilities of the tokens of a translation, and its attention."""
    previous = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]])
    batch = {"src_tokens": SOURCE[row : row + 1], "prev_output_tokens": previous[None]}
    logits, attention = outputs(network, batch, target_tokens=tokens[None])
    return logits[0].log_softmax(dim=-1).gather(1, tokens[:, None])[:, 0], attention[0]


@pytest.mark.parametrize("shortened", [False, True])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_from_right_to_left(name, shortened):
    network = network_of(name, True)
    shortlist = torch.arange(0, len(SYMBOLS), 2) if shortened else None
    if shortened:
        shortlist = torch.cat([torch.arange(SYMBOLS.nspecial), shortlist]).unique()
    found = search(
        [NetworkModel(network)], SOURCE, SYMBOLS, OPTIONS, shortlist=shortlist, need_weights=True
    )
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == 4
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens
            assert tokens[-1] == EOS and EOS not in tokens[:-1]
            scores, attention = plain_pass(network, row, tokens)
            if shortlist is None:
                torch.testing.assert_close(
                    hypothesis.token_scores.double(), scores, atol=1e-5, rtol=0
                )
            torch.testing.assert_close(hypothesis.attention.double(), attention.double())


@torch.no_grad()
def test_both_directions():
    networks = [
        network_of("convs2s", False),
        network_of("adl-transformer", True, 2),
        network_of("pervasive", True, 3),
    ]
    options = SearchOptions(beam=4, max_len_b=6, lenpen=0.7, unkpen=0.5)
    models = list(map(NetworkModel, networks))
    found = search(models, SOURCE, SYMBOLS, options, need_weights=True)
    sides = [search(each, SOURCE, SYMBOLS, options) for each in (models[:1], models[1:])]
    for row, hypotheses in enumerate(found):
        # All hypotheses of both sides, with the mean of the log-probabilities of all models.
        expected = {}
        for hypothesis in sides[0][row] + sides[1][row]:
            tokens = hypothesis.tokens
            each, weights = zip(*(plain_pass(network, row, tokens) for network in networks))
            scores = sum(each) / 3 - 0.5 * tokens.eq(SYMBOLS.unk())
            score = float(scores.sum() / len(tokens) ** 0.7)
            expected[tuple(tokens.tolist())] = (score, scores, sum(weights) / 3)
        assert len(expected) > 4
        best = sorted(expected.items(), key=lambda item: -item[1][0])[:4]
        assert [tuple(one.tokens.tolist()) for one in hypotheses] == [key for key, _ in best]
        for one, (_, (score, scores, weights)) in zip(hypotheses, best):
            assert one.score == pytest.approx(score, abs=1e-5)
            torch.testing.assert_close(one.token_scores.double(), scores, atol=1e-5, rtol=0)
            torch.testing.assert_close(one.attention.double(), weights.double())
    for number in (1, 2):
        fewer = search(models, SOURCE, SYMBOLS, options, nbest=number)
        assert [[one.score for one in each] for each in fewer] == [
            [one.score for one in each[:number]] for each in found
        ]


def test_translations_are_no_longer_than_the_shortest_limit():
    networks = [make("convs2s"), make("convs2s", right_to_left=True, max_target_positions=4)]
    options = SearchOptions(beam=2, min_len=3)
    found = search(list(map(NetworkModel, networks)), SOURCE, SYMBOLS, options)
    assert {len(one.tokens) for each in found for one in each} == {4}


def test_what_is_refused():
    models = [NetworkModel(make("convs2s", right_to_left=side)) for side in (False, True)]
    prefix = torch.full((3, 1), SYMBOLS.nspecial)
    for given in (models, models[1:]):
        with pytest.raises(UserError, match="last token first .--right-to-left.*--prefix-size"):
            search(given, SOURCE, SYMBOLS, OPTIONS, prefix=prefix)
    with pytest.raises(UserError, match="--temperature is 0.5, but models of both directions"):
        search(models, SOURCE, SYMBOLS, SearchOptions(temperature=0.5))
    assert search(models[1:], SOURCE, SYMBOLS, SearchOptions(temperature=0.5, max_len_b=3))
