"""Models of fairseq compute what their networks compute, in the calls of fairseq."""

import copy
import pickle

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from tests.support.adapters import dictionary, make, tiny_adl, tiny_convs2s, tiny_pervasive
from tests.support.batches import random_batch
from tests.support.families import MODELS, count_calls, outputs

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2)]


def inputs():
    return random_batch(LENGTHS)["net_input"]


@EVERY_MODEL
@torch.no_grad()
def test_logits_features_and_attention_are_those_of_the_network(name):
    model = make(name)
    expected, attention = outputs(model, inputs())
    logits, extra = model(**inputs())
    assert torch.equal(logits, expected)
    torch.testing.assert_close(extra["attn"], [attention])
    features, extra = model(**inputs(), features_only=True)
    assert torch.equal(model.decoder.output_layer(features), expected)
    torch.testing.assert_close(extra["attn"], [attention])
    encoder_out = model.encoder(inputs()["src_tokens"], inputs()["src_lengths"])
    again, _ = model.decoder.extract_features(inputs()["prev_output_tokens"], encoder_out)
    assert torch.equal(again, features)
    assert (model.encoder.max_positions(), model.decoder.max_positions()) == (64, 64)


@EVERY_MODEL
@torch.no_grad()
def test_the_incremental_state_is_reordered_with_the_hypotheses(name):
    model = make(name).double()
    spread, order = torch.arange(3).repeat_interleave(2), torch.tensor([1, 1, 4, 5])
    encoder_out = model.encoder(inputs()["src_tokens"], inputs()["src_lengths"])
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, spread)
    prefix = torch.randint(4, 20, (6, 4), generator=torch.Generator().manual_seed(3))
    state = {}
    for seen in (1, 2):
        model.decoder(prefix[:, :seen], encoder_out, incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
    prefix, source = prefix[order], inputs()["src_tokens"][spread[order]]
    for seen in (3, 4):
        actual, extra = model.decoder(prefix[:, :seen], encoder_out, incremental_state=state)
        expected, expected_extra = model(source, None, prefix[:, :seen])
        torch.testing.assert_close(actual[:, -1], expected[:, -1], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            extra["attn"][0][:, -1], expected_extra["attn"][0][:, -1], atol=1e-5, rtol=1e-5
        )


@EVERY_MODEL
@torch.no_grad()
def test_ready_for_generation_it_gives_the_same_and_cannot_train(name):
    model = make(name).double()
    expected = model(**inputs())
    model.make_generation_fast_(need_attn=True)
    torch.testing.assert_close(model(**inputs()), expected, atol=1e-5, rtol=1e-5)
    for other in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(other(**inputs())[0], model(**inputs())[0])
        with pytest.raises(RuntimeError, match="cannot train"):
            other.train()
        assert other.eval() is other


@EVERY_MODEL
@pytest.mark.parametrize("parts, random", [(None, True), (["Encoder"], False)])
@torch.no_grad()
def test_dropout_can_be_retained_in_generation(name, parts, random):
    model = make(name, dropout=0.5)
    batch = inputs()
    assert torch.equal(model(**batch)[0], model(**batch)[0])
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=parts)
    assert torch.equal(model(**batch)[0], model(**batch)[0]) is not random
    if parts:
        parts = [type(model.decoder).__name__]
        model = make(name, dropout=0.5)
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=parts)
        assert not torch.equal(model(**batch)[0], model(**batch)[0])


def test_warnings_of_a_definition_are_logged(caplog):
    tiny_adl(arch="adl", encoder_adl="id", decoder_adl="rnn")
    assert "no layer attends to the source" in caplog.text


@torch.no_grad()
def test_an_ensemble_with_other_families_translates():
    models = [tiny_pervasive(), tiny_convs2s()]
    generator = SequenceGenerator(models, dictionary(), beam_size=3, max_len_b=8)
    found = generator.generate(models, random_batch([(5, 4), (3, 2)]))
    assert all(len(hypotheses) == 3 for hypotheses in found)
    assert found[0][0]["attention"].shape[0] == 5


@pytest.mark.parametrize("features_only", [False, True])
@torch.no_grad()
def test_alignments_of_the_most_probable_tokens_need_one_output_projection(features_only):
    model = tiny_pervasive()
    inputs = random_batch([(7, 5), (4, 6)])["net_input"]
    logits, _ = model(**inputs, need_attn=False)
    _, expected = model(**inputs, target_tokens=logits.argmax(dim=-1), need_attn=True)
    counted = count_calls(model.decoder.output)
    _, extra = model(**inputs, need_attn=True, features_only=features_only)
    assert len(counted) == 1
    assert torch.equal(extra["attn"][0], expected["attn"][0])
