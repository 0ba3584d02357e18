"""Beam search with networks: scores are those of a plain pass, and what is refused."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.options import SearchOptions
from convs2s.translation.search import beam_search
from tests.support.batches import EOS, SYMBOLS, random_batch
from tests.support.families import MODELS, make, outputs

SOURCE = random_batch([(7, 1), (3, 1), (11, 1)])["net_input"]["src_tokens"]


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_scores_and_attention_are_those_of_a_plain_pass(name):
    network, options = make(name).double(), SearchOptions(beam=3, max_len_b=6)
    found = beam_search([NetworkModel(network)], SOURCE, SYMBOLS, options, need_weights=True)
    for row, hypotheses in enumerate(found):
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens
            previous = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]])
            batch = {"src_tokens": SOURCE[row : row + 1], "prev_output_tokens": previous[None]}
            logits, attention = outputs(network, batch, target_tokens=tokens[None])
            plain = logits[0].log_softmax(dim=-1).gather(1, tokens[:, None])[:, 0]
            torch.testing.assert_close(hypothesis.token_scores.double(), plain, atol=1e-5, rtol=0)
            assert hypothesis.score == pytest.approx(float(plain.mean()), abs=1e-5)
            torch.testing.assert_close(hypothesis.attention.double(), attention[0].double())


def test_logits_that_are_not_numbers():
    network = make("convs2s")
    network.decoder.output.register_forward_hook(lambda *call: call[-1] * torch.nan)
    with pytest.raises(UserError, match="infinite or not a number"):
        beam_search([NetworkModel(network)], SOURCE, SYMBOLS, SearchOptions(max_len_b=5))


def test_lengths_that_contradict():
    models = [NetworkModel(make("convs2s"))]
    with pytest.raises(UserError, match="--min-len is 70, .* at most 63 tokens"):
        beam_search(models, SOURCE, SYMBOLS, SearchOptions(min_len=70))
