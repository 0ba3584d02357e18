"""Layers in ADL between the embeddings and the grid of pervasive attention."""

import pytest
import torch

from convs2s.common.errors import UserError
from tests.support.batches import random_batch
from tests.support.checks import assert_causal, assert_incremental_decoding_is_the_full_pass
from tests.support.families import MODELS, make, outputs, tiny_pervasive

WITH_LAYERS = [
    name
    for name, options in MODELS.items()
    if name.startswith("pervasive") and "decoder_adl" in options
]


@pytest.mark.parametrize("name", WITH_LAYERS)
def test_decoding_is_causal_with_padding_on_the_left(name):
    model = make(name).double()
    assert_causal(model)
    assert_incremental_decoding_is_the_full_pass(model)


@torch.no_grad()
def test_identity_layers_do_not_change_the_logits():
    plain, layered = tiny_pervasive(), tiny_pervasive(encoder_adl="id", decoder_adl="id", seed=2)
    assert plain.encoder.layers is None and plain.decoder.layers is None
    layered.load_state_dict(plain.state_dict())
    batch = random_batch([(7, 5), (3, 9)], left_pad_target=True)["net_input"]
    real = batch["prev_output_tokens"].ne(1)
    assert torch.equal(outputs(layered, batch)[0][real], outputs(plain, batch)[0][real])


def test_channels_of_the_grid_and_of_the_output_projection():
    model = tiny_pervasive(encoder_adl="birnn -> linear(10)", decoder_adl="cnn(glu, d=20)")
    grid = model.encoder.share.projection, model.decoder.network.target.projection
    assert [part.in_features for part in grid] == [10, 20]
    assert grid[0].out_features == 15 and model.decoder.network.output.out_features == 16
    target_only = tiny_pervasive(decoder_adl="linear(24)")
    assert (
        target_only.encoder.layers is None
        and target_only.encoder.share.projection.in_features == 12
    )


def test_every_layer_is_trained_and_uses_the_dropout_options():
    model = tiny_pervasive(
        encoder_adl="birnn -> res_nd(mh_dot_self_att)",
        decoder_adl="res_d(rnn) -> res_nd(ffl)",
        attention_heads=3,
        ff_dim=9,
        dropout=0.4,
        attention_dropout=0.3,
    )
    attention = model.encoder.layers[1].chain[1]
    assert (attention.heads, attention.dropout.p) == (3, 0.3)
    assert model.encoder.layers[1].chain[2].dropout.p == model.encoder.embed.dropout.p == 0.4
    assert any(p.shape == (9, 16) for p in model.decoder.layers.parameters())
    outputs(model.train(), random_batch([(6, 5), (4, 3)])["net_input"])[0].sum().backward()
    for side in (model.encoder, model.decoder):
        assert all(p.grad is not None for p in side.layers.parameters())


@pytest.mark.parametrize(
    "options, message",
    [
        (
            dict(decoder_adl="rnn -> res(mh_dot_src_att)"),
            "--decoder-adl, line 1, column 12: 'mh_dot_src_att' attends to the source, but here "
            "the grid does that",
        ),
        (dict(decoder_adl="rnn -> birnn"), "--decoder-adl, line 1, column 8: 'birnn' sees all"),
        (dict(decoder_adl="cnn(padding=centred)"), "a decoder must not see the tokens"),
        (dict(encoder_adl="mlp_att"), "this is the encoder itself"),
        (dict(encoder_adl="rn"), "--encoder-adl, line 1, column 1: there is no"),
        (dict(encoder_adl="mh_dot_self_att(h=5)"), "--encoder-adl, line 1, column"),
        (dict(encoder_adl=""), "--encoder-adl"),
        (dict(encoder_adl="id", adl_dialect="marian"), "There is no ADL dialect 'marian'"),
        (dict(decoder_adl="id", attention_heads=0), "--attention-heads is 0, but must be from 1"),
    ],
)
def test_invalid_definitions_are_refused(options, message):
    with pytest.raises(UserError) as error:
        tiny_pervasive(**options)
    assert message in str(error.value)


def test_the_sockeye_dialect():
    model = tiny_pervasive(encoder_adl="res(norm->ff(24)->linear)", adl_dialect="sockeye")
    assert model.encoder.layers[0].chain[1].linear.out_features == 24


def test_sentences_longer_than_the_learned_positions():
    model = tiny_pervasive(encoder_adl="learn_pos", decoder_adl="learn_pos")
    for lengths, side in (((65, 3), "source"), ((3, 65), "target")):
        with pytest.raises(UserError, match=f"{side} sentence has 65 tokens, .* the 64"):
            outputs(model, random_batch([lengths])["net_input"])
