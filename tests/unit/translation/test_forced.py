"""Scores of given translations are those of a plain pass, and what is refused."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.translation import Translator
from convs2s.translation.decoding import NetworkModel
from convs2s.translation.forced import score_pairs
from tests.support.batches import PAD, random_batch
from tests.support.families import MODELS, make, outputs
from tests.support.translation import DATA, FIXTURES, LINES, text_file
from tests.support.translation import MODELS as CHECKPOINTS


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_every_model(name):
    network, batch = make(name), random_batch([(7, 5), (3, 9), (11, 2)])
    inputs, target = batch["net_input"], batch["target"]
    model = NetworkModel(network)
    encoded = model.encode(inputs["src_tokens"])
    forced = model.score(encoded, inputs["prev_output_tokens"], target, need_weights=True)
    logits, attention = outputs(network, inputs, target_tokens=target)
    plain = logits.log_softmax(dim=-1).gather(2, target.unsqueeze(2)).squeeze(2)
    real = target.ne(PAD)
    torch.testing.assert_close(forced.log_probs[real], plain[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(forced.attention[real], attention[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_translations_have_the_scores_of_the_search(name):
    translator = Translator(FIXTURES / f"{name}.pt", data=DATA, device="cpu")
    found = translator.translate(LINES)
    pairs = [(line, one.text) for line, one in zip(LINES, found)]
    # The search scores a token on average.
    for pair, one in zip(score_pairs(translator.ensemble, pairs), found):
        assert pair.score == pytest.approx(one.score, abs=1e-5)


def test_refusals(tmp_path):
    path = FIXTURES / "convs2s.pt"
    ensemble = Translator(path, data=DATA, device="cpu").ensemble
    assert score_pairs(ensemble, []) == []
    with pytest.raises(UserError, match="31 x 2 tokens, .* at most 20 x 20"):
        score_pairs(ensemble, [("eins " * 30, "eins-th")])
    with pytest.raises(UserError, match="2 x 31 tokens, .* at most 20 x 20"):
        score_pairs(ensemble, [("eins", "eins-th " * 30)])
    lexicon = text_file(tmp_path, ["eins eins-th 0.9"], "lexicon")
    restricted = Translator(path, data=DATA, device="cpu", lexicon=str(lexicon)).ensemble
    with pytest.raises(UserError, match="need the whole vocabulary, but --lexicon"):
        score_pairs(restricted, [("eins", "eins-th")])
