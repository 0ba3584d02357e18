"""Networks built from definitions: what random and named ones must satisfy, and what is refused."""

import copy
from dataclasses import replace

import pytest
import torch

from convs2s_plugin.adl import Settings, resolve
from convs2s_plugin.adl.architectures import ARCHITECTURES
from convs2s_plugin.adl.explain import figures
from convs2s_plugin.adl.language.registry import layer_type
from convs2s_plugin.adl.model import MODEL
from convs2s_plugin.errors import UserError
from tests.adl_random import random_definition
from tests.helpers import dictionary, random_batch, tiny_adl, translation_task

SEEDS = range(300)
SIZES = [name for name in ARCHITECTURES if not name.endswith(("_iwslt", "_wmt"))]
SMALL = dict(model_dim=32, attention_heads=4, max_source_positions=64, max_target_positions=64)
PAD = dictionary().pad()


def random_model(seed, **options):
    drawn = random_definition(seed)
    return tiny_adl(
        arch=MODEL,
        encoder_adl=drawn.encoder,
        decoder_adl=drawn.decoder,
        model_dim=drawn.settings.model_dim,
        ff_dim=drawn.settings.ff_dim,
        attention_heads=drawn.settings.attention_heads,
        input_feeding=drawn.input_feeding,
        **options,
    )


def named_model(name, **options):
    return tiny_adl(arch=name, **{**SMALL, **options})


def assert_causal(model):
    """No output has a gradient with respect to words to its right, or of another sentence."""
    batch = random_batch([(6, 5), (4, 3)], left_pad_target=True)["net_input"]
    kept = {}

    def keep(module, args, output):
        kept["target"] = output.detach().requires_grad_()
        return kept["target"]

    table = model.decoder.embed.words
    model.encoder.embed.words = copy.deepcopy(model.encoder.embed.words)
    handle = table.register_forward_hook(keep)
    features, _ = model(**batch, features_only=True)
    handle.remove()
    real = batch["prev_output_tokens"].ne(PAD)
    # The words of the decoder are moved to the left before they are embedded.
    words = real.sum(dim=1).tolist()
    random = torch.randn(features.size(-1), dtype=features.dtype)
    for row, count in enumerate(words):
        outputs = features[row][real[row]] @ random
        for t in range(count):
            (gradient,) = torch.autograd.grad(outputs[t], kept["target"], retain_graph=True)
            seen = gradient.abs().sum(dim=-1)
            assert not seen[row, t + 1 :].any(), (row, t)
            assert not seen[1 - row].any(), (row, t)


@torch.no_grad()
def assert_steps_are_the_full_pass(model):
    batch = random_batch([(7, 5), (3, 6)])["net_input"]
    expected, extra = model(**batch)
    encoder_out = model.encoder(batch["src_tokens"], batch["src_lengths"])
    state, logits, weights = {}, [], []
    seen = 0
    for chunk in (1, 2, 1, 2):
        seen += chunk
        output, step = model.decoder(
            batch["prev_output_tokens"][:, :seen], encoder_out, incremental_state=state
        )
        logits.append(output)
        weights.append(step["attn"][0])
    real = batch["prev_output_tokens"].ne(PAD)
    scale = 1 + expected.abs().max().item()
    torch.testing.assert_close(
        torch.cat(logits, dim=1)[real], expected[real], atol=1e-10 * scale, rtol=1e-10
    )
    if extra["attn"][0] is None:
        assert weights == [None] * 4
    else:
        torch.testing.assert_close(
            torch.cat(weights, dim=1)[real], extra["attn"][0][real], atol=1e-9, rtol=1e-9
        )


def assert_counted(module, layer):
    """A module has as many parameters as its layer declares, and so have those inside it."""
    count = sum(parameter.numel() for parameter in module.parameters())
    assert count == figures([layer], 10).parameters, layer


@pytest.mark.parametrize("block", range(10))
def test_random_definitions_are_causal_and_step_by_step_is_the_full_pass(block):
    for seed in SEEDS[block::10]:
        model = random_model(seed).double()
        assert_causal(model)
        assert_steps_are_the_full_pass(model)


@pytest.mark.parametrize("name", SIZES)
def test_named_architectures(name):
    model = named_model(name).double()
    assert_causal(model)
    assert_steps_are_the_full_pass(model)
    recipe = ARCHITECTURES[name].recipe(**SMALL)
    for side, layers in ((model.encoder, recipe.encoder), (model.decoder, recipe.decoder)):
        for module, layer in zip(side.layers, layers.layers):
            assert_counted(module, layer)
    batch = random_batch([(6, 5), (4, 3)])
    loss = model.train()(**batch["net_input"])[0].sum()
    loss.backward()
    without = [key for key, value in model.named_parameters() if value.grad is None]
    assert not without


def test_every_layer_has_as_many_parameters_as_it_declares():
    for seed in SEEDS:
        drawn = random_definition(seed)
        settings = replace(drawn.settings, max_source_positions=64, max_target_positions=64)
        recipe = resolve(drawn.encoder, drawn.decoder, settings, input_feeding=drawn.input_feeding)
        for layer in (*recipe.encoder.layers, *recipe.decoder.layers):
            assert_counted(layer_type(layer).module_class()(layer), layer)


def test_both_dialects_build_the_same_network():
    # There, attention has 8 heads whatever the model's options.
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
        arch=MODEL, encoder_adl=encoder, decoder_adl=decoder, adl_dialect="sockeye", **SMALL
    )
    theirs.load_state_dict(paper.state_dict())
    batch = random_batch([(6, 5), (4, 3)])["net_input"]
    assert torch.equal(paper(**batch)[0], theirs(**batch)[0])


def test_initial_weights_and_their_gain():
    wide = named_model("adl_transformer", model_dim=256, seed=3)
    weight = wide.encoder.layers[1].chain[1].queries_keys_values.weight
    bound = (6 / (256 + 256)) ** 0.5
    for part in weight.chunk(3):
        assert 0.99 * bound < part.abs().max() <= bound
        assert abs(part.std() - bound / 3**0.5) < 0.01 * bound
    assert abs(wide.decoder.embed.words.weight.std() - 1 / 16) < 0.003
    doubled = named_model("adl_transformer", model_dim=256, seed=3, init_gain=2.0)
    torch.testing.assert_close(
        doubled.encoder.layers[1].chain[1].queries_keys_values.weight, 2 * weight
    )
    torch.testing.assert_close(doubled.decoder.embed.words.weight, wide.decoder.embed.words.weight)


def test_forget_bias_and_orthogonal_recurrent_weights():
    model = tiny_adl(arch=MODEL, encoder_adl="rnn(forget_bias=1)", decoder_adl="rnn -> mlp_att")
    torch.manual_seed(1)
    (layer,) = resolve("rnn(forget_bias=1)", "id", Settings(**SMALL)).encoder.layers
    network = layer_type(layer).module_class()(layer).network
    assert network.bias_ih_l0.tolist() == [0] * 32 + [1] * 32 + [0] * 64
    assert not network.bias_hh_l0.any()
    for part in network.weight_hh_l0.chunk(4):
        torch.testing.assert_close(part @ part.T, torch.eye(32), atol=1e-5, rtol=1e-5)
    assert model(**random_batch([(3, 2)])["net_input"])[0].isfinite().all()


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
            "The decoder gives 8 channels and --model-dim is 16",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_with_a_sentence(options, said):
    with pytest.raises(UserError) as error:
        tiny_adl(arch=MODEL, **options)
    assert said in str(error.value)


def test_one_table_needs_one_dictionary():
    task = translation_task(dictionary(5), dictionary(6))
    with pytest.raises(UserError, match="--joined-dictionary"):
        tiny_adl(task=task, share_all_embeddings=True)


def test_a_decoder_without_attention_is_warned_of(caplog):
    model = tiny_adl(arch=MODEL, encoder_adl="id", decoder_adl="rnn")
    assert "no layer attends to the source" in caplog.text
    logits, extra = model(**random_batch([(3, 2), (2, 4)])["net_input"])
    assert extra["attn"] == [None] and logits.shape == (2, 4, 35)


def test_too_long_for_learned_positions():
    model = tiny_adl(arch=MODEL, encoder_adl="learn_pos", decoder_adl="learn_pos -> mlp_att")
    assert model(**random_batch([(64, 64)])["net_input"])[0].isfinite().all()
    for lengths, what in (((65, 3), "source"), ((3, 65), "target")):
        with pytest.raises(UserError, match=f"A {what} sentence has 65 tokens, more than the 64"):
            model(**random_batch([lengths])["net_input"])


def test_fixed_positions_have_no_end():
    model = tiny_adl(arch=MODEL, encoder_adl="pos", decoder_adl="pos -> mlp_att")
    long = random_batch([(700, 600)])["net_input"]
    assert model(**long)[0].isfinite().all()
