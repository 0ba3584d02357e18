"""Models built from definitions: properties of random and named ones, and errors."""

import os
from dataclasses import replace

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.architectures import ARCHITECTURES
from convs2s.models.adl.figures import figures
from convs2s.models.adl.layers.chains import build_layer
from convs2s.models.interface import Vocabularies
from tests.support.adl_random import random_definition
from tests.support.batches import PAD, random_batch
from tests.support.checks import (
    assert_causal,
    assert_incremental_decoding_is_the_full_pass,
    assert_state_dict_round_trip,
    assert_trains,
)
from tests.support.families import NAMED, make, outputs, tiny_adl

SEEDS = range(300)
# Those whose networks compute; ``make properties`` sets the number to 1,000.
COMPUTED = range(int(os.environ.get("CONVS2S_CASES", "100")))
EVERY_NAMED = pytest.mark.parametrize("name", NAMED)
SMALL = dict(model_dim=32, attention_heads=4, max_source_positions=64, max_target_positions=64)


def random_model(seed, **options):
    return tiny_adl(arch="adl", **random_definition(seed).options(), **options)


def named_model(name, **options):
    return tiny_adl(arch=name, **{**SMALL, **options})


def assert_counted(module, layer):
    """A module has as many parameters as `figures` counts for its specification."""
    count = sum(parameter.numel() for parameter in module.parameters())
    assert count == figures([layer], 10).parameters, layer


@pytest.mark.parametrize("seeds", [COMPUTED[first::10] for first in range(10)], ids=str)
def test_random_definitions_are_causal_and_decode_incrementally(seeds):
    for seed in seeds:
        model = random_model(seed).double()
        assert_causal(model)
        assert_incremental_decoding_is_the_full_pass(model)


@EVERY_NAMED
def test_a_named_architecture_is_causal_and_decodes_incrementally(name):
    model = make(name).double()
    assert_causal(model)
    assert_incremental_decoding_is_the_full_pass(model)


@EVERY_NAMED
def test_a_named_architecture_trains(name):
    assert_trains(make(name))


@EVERY_NAMED
def test_saved_weights_of_a_named_architecture_give_the_same_logits(name):
    assert_state_dict_round_trip(lambda **options: make(name, **options))


@EVERY_NAMED
def test_a_named_architecture_has_the_layers_that_its_definition_declares(name):
    model = named_model(name)
    spec = ARCHITECTURES[name].resolve(**SMALL)
    for side, layers in ((model.encoder, spec.encoder), (model.decoder, spec.decoder)):
        assert len(side.layers) == len(layers.layers)
        for module, layer in zip(side.layers, layers.layers):
            assert_counted(module, layer)


def test_every_layer_has_as_many_parameters_as_are_counted():
    for seed in SEEDS:
        drawn = random_definition(seed)
        settings = replace(drawn.settings, max_source_positions=64, max_target_positions=64)
        spec = resolve(drawn.encoder, drawn.decoder, settings, input_feeding=drawn.input_feeding)
        for layer in (*spec.encoder.layers, *spec.decoder.layers):
            assert_counted(build_layer(layer), layer)


def test_both_dialects_build_the_same_network():
    # In Sockeye, attention has 8 heads whatever the options are.
    paper = named_model("adl_transformer", attention_heads=8)
    encoder = (
        "pos->repeat(6,res(norm->mh_dot_self_att->dropout)->"
        "res(norm->ff(128)->linear->dropout))->norm"
    )
    decoder = (
        "pos->repeat(6,res(norm->mh_dot_self_att->dropout)->res(norm->mh_dot_att->dropout)"
        "->res(norm->ff(128)->linear->dropout))->norm"
    )
    theirs = tiny_adl(
        arch="adl", encoder_adl=encoder, decoder_adl=decoder, adl_dialect="sockeye", **SMALL
    )
    theirs.load_state_dict(paper.state_dict())
    batch = random_batch([(6, 5), (4, 3)])["net_input"]
    assert torch.equal(outputs(paper, batch)[0], outputs(theirs, batch)[0])


def test_initial_weights_and_their_gain():
    wide = named_model("adl_transformer", model_dim=256, seed=3)
    weight = wide.encoder.layers[1].chain[1].queries_keys_values.weight
    to_source = wide.decoder.layers[2].chain[1]
    # Self-attention has one matrix of queries, keys and values, attention to the source two parts
    # of another matrix.
    for part, rows in (
        (weight, 3 * 256),
        *((part, 256) for part in to_source.keys_values.weight.chunk(2)),
        (to_source.queries.weight, 256),
    ):
        bound = (6 / (256 + rows)) ** 0.5
        assert 0.99 * bound < part.abs().max() <= bound
        assert abs(part.std() - bound / 3**0.5) < 0.01 * bound
    assert abs(wide.decoder.embed.words.weight.std() - 1 / 16) < 0.003
    doubled = named_model("adl_transformer", model_dim=256, seed=3, init_gain=2.0)
    torch.testing.assert_close(
        doubled.encoder.layers[1].chain[1].queries_keys_values.weight, 2 * weight
    )
    torch.testing.assert_close(doubled.decoder.embed.words.weight, wide.decoder.embed.words.weight)


def test_the_gain_is_for_linear_maps():
    """Decays, vectors of positions and convolutions of single channels are as without it."""
    text = "learn_pos -> ema -> mamba2 -> light_conv -> mega_self_att -> rnn -> cnn"
    options = dict(arch="adl", encoder_adl=text, decoder_adl="mlp_att")
    plain, scaled = (
        dict(tiny_adl(**options, init_gain=gain).encoder.layers.named_parameters())
        for gain in (1.0, 0.5)
    )
    changed = {name for name in plain if not torch.equal(scaled[name], plain[name])}
    assert changed == {
        *("2.projections.weight", "2.output.weight"),
        *("4.values.weight", "4.gates.weight", "4.output.weight"),
        *("5.network.weight_ih_l0", "5.network.weight_hh_l0", "6.linear.weight"),
    }
    assert all(torch.equal(scaled[name], 0.5 * plain[name]) for name in changed)


@pytest.mark.parametrize(
    "layer", ["mh_dot_self_att(pos=rope)", "learn_pos", "retention", "mh_dot_self_att(window=2)"]
)
def test_targets_without_a_token(layer):
    model = tiny_adl(arch="adl", encoder_adl="pos", decoder_adl=f"{layer} -> mlp_att")
    batch = random_batch([(3, 2)])["net_input"]
    batch["prev_output_tokens"] = torch.full_like(batch["prev_output_tokens"], PAD)
    assert outputs(model, batch)[0].isfinite().all()


def test_forget_bias_and_orthogonal_recurrent_weights():
    model = tiny_adl(arch="adl", encoder_adl="rnn(forget_bias=1)", decoder_adl="rnn -> mlp_att")
    torch.manual_seed(1)
    (layer,) = resolve("rnn(forget_bias=1)", "id", Settings(**SMALL)).encoder.layers
    network = build_layer(layer).network
    assert network.bias_ih_l0.tolist() == [0] * 32 + [1] * 32 + [0] * 64
    assert not network.bias_hh_l0.any()
    for part in network.weight_hh_l0.chunk(4):
        torch.testing.assert_close(part @ part.T, torch.eye(32), atol=1e-5, rtol=1e-5)
    assert outputs(model, random_batch([(3, 2)])["net_input"])[0].isfinite().all()


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(encoder_adl="id"), "--arch adl needs --decoder-adl: a chain of layers"),
        (dict(), "--arch adl needs --encoder-adl and --decoder-adl"),
        (dict(encoder_adl="ide", decoder_adl="id"), "--encoder-adl, line 1, column 1"),
        (dict(encoder_adl="id", decoder_adl="birnn"), "sees all positions to its right"),
        (dict(encoder_adl="id", decoder_adl="id", dropout=2.0), "--dropout is 2.0"),
        (dict(encoder_adl="id", decoder_adl="id", adl_dialect="marian"), "no ADL dialect"),
        (
            dict(encoder_adl="id", decoder_adl="linear(8)", share_input_output_embed=True),
            "decoder outputs 8 channels and --model-dim is 16",
        ),
    ],
)
def test_a_model_that_cannot_be_built_is_an_error_in_a_sentence(options, said):
    with pytest.raises(UserError) as error:
        tiny_adl(arch="adl", **options)
    assert said in str(error.value)


def test_one_embedding_matrix_needs_one_dictionary():
    with pytest.raises(UserError, match="--joined-dictionary"):
        tiny_adl(vocabularies=Vocabularies(9, 10), share_all_embeddings=True)


def test_a_decoder_without_attention_causes_a_warning():
    model = tiny_adl(arch="adl", encoder_adl="id", decoder_adl="rnn")
    (warning,) = model.spec.warnings
    assert "no layer attends to the source" in warning
    logits, attention = outputs(model, random_batch([(3, 2), (2, 4)])["net_input"])
    assert attention is None and logits.shape == (2, 4, 35)


def test_a_sentence_that_is_too_long_for_learned_positions():
    model = tiny_adl(arch="adl", encoder_adl="learn_pos", decoder_adl="learn_pos -> mlp_att")
    assert outputs(model, random_batch([(64, 64)])["net_input"])[0].isfinite().all()
    for lengths, what in (((65, 3), "source"), ((3, 65), "target")):
        with pytest.raises(UserError, match=f"{what} sentence has 65 tokens, .* the 64"):
            outputs(model, random_batch([lengths])["net_input"])


def test_sinusoidal_positions_have_no_maximum():
    model = tiny_adl(arch="adl", encoder_adl="pos", decoder_adl="pos -> mlp_att")
    long = random_batch([(700, 600)])["net_input"]
    assert outputs(model, long)[0].isfinite().all()
