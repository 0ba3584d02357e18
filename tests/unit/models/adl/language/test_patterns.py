"""Patterns of hybrid language models as definitions in ADL."""

import json
import random

import pytest

from convs2s.common.errors import TextError, UserError
from convs2s.models.adl import PAST, POSITION, Argument, Integer, Settings, register_layer, resolve
from convs2s.models.adl.language import registry
from convs2s.models.adl.language.patterns import definition_of_pattern
from convs2s.models.adl.language.spec import DECODER, ENCODER
from tests.support.work import at_most_calls

SMALL = Settings(model_dim=16, attention_heads=4)


@pytest.fixture
def all_layers(monkeypatch):
    """The layers that patterns may need, where they are not registered."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    for name in ("mamba2", "gla"):
        if name not in registry._ENTRIES:
            register_layer(name, "a mixer", reach=PAST)(type(name, (), {}))
    known = registry._ENTRIES["mh_dot_self_att"]
    if "window" not in [argument.name for argument in known.arguments]:
        window = Argument("window", Integer(1, 10**6), 1, "positions")
        del registry._ENTRIES["mh_dot_self_att"]
        register_layer("mh_dot_self_att", "attention", window, reach=POSITION)(type("Att", (), {}))


def lines(pattern, side=ENCODER):
    return definition_of_pattern(pattern, side).splitlines()


def test_symbols(all_layers):
    assert lines("M-M-M*-M-M-M*-\n") == [
        "let mamba = res_nd(mamba2);",
        "let feed_forward = res_nd(ffl);",
        "let attention = res_nd(mh_dot_self_att);",
        "cycle(14, mamba, feed_forward, mamba, feed_forward, mamba, attention, feed_forward) -> "
        "norm",
    ]
    assert lines("*-", DECODER) == [
        "let attention = res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att);",
        "let feed_forward = res_nd(ffl);",
        "pos -> attention -> feed_forward -> norm",
    ]
    assert lines("MMM*M-M-M-M")[-1] == (
        "repeat(3, mamba) -> attention -> cycle(7, mamba, feed_forward) -> norm"
    )


def test_layer_types(all_layers):
    types = (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["sliding_attention"] * 2
    config = {"layer_types": types, "sliding_window": 1024, "num_hidden_layers": 26, "other": 1}
    sliding = ", ".join(["sliding_attention"] * 5)
    assert lines(json.dumps(config)) == [
        "let sliding_attention = res_nd(mh_dot_self_att(window=1024)) -> res_nd(ffl);",
        "let full_attention = res_nd(mh_dot_self_att) -> res_nd(ffl);",
        f"pos -> cycle(26, {sliding}, full_attention) -> norm",
    ]
    assert lines('["linear_attention", "linear_attention", "full_attention"]', DECODER) == [
        "let linear_attention = res_nd(gla) -> res_nd(mh_dot_src_att) -> res_nd(ffl);",
        "let full_attention = res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(ffl);",
        "repeat(2, linear_attention) -> full_attention -> norm",
    ]


def test_block_types_repeat_up_to_the_number_of_layers(all_layers):
    config = {
        "block_types": ["recurrent", "recurrent", "attention"],
        "attention_window_size": 2048,
        "num_hidden_layers": 26,
    }
    assert lines(json.dumps(config)) == [
        "let recurrent = res_nd(rg_lru) -> res_nd(ffl);",
        "let local_attention = res_nd(mh_dot_self_att(window=2048)) -> res_nd(ffl);",
        "cycle(26, recurrent, recurrent, local_attention) -> norm",
    ]
    config = {"hybrid_override_pattern": "*-*-", "num_hidden_layers": 4}
    assert lines(json.dumps(config))[-1] == "pos -> cycle(4, attention, feed_forward) -> norm"


def test_a_layer_of_the_name_of_a_chain(all_layers):
    register_layer("attention", "another", reach=POSITION)(type("Other", (), {}))
    assert lines("**")[-1] == "pos -> repeat(2, attention_block) -> norm"


def test_the_blocks_of_an_encoder_are_those_of_the_pattern():
    stack = resolve(definition_of_pattern("*-*-*-**", ENCODER), "id", SMALL).encoder
    assert stack.blocks == 7 and stack.walk()


@pytest.mark.parametrize(
    "text, column, message",
    [
        ("", 1, "the pattern is empty: symbols are M (mamba), * (attention), - (feed_forward)"),
        ("  \n", 1, "the pattern is empty"),
        (
            "*-x",
            3,
            "there is no symbol 'x'; symbols are M (mamba), * (attention), - (feed_forward)",
        ),
        ("*-E-", 3, "no symbol 'E', which means a mixture of experts"),
        (" *-\t+", 5, "there is no symbol '+'"),
        ("*-é", 3, "there is no symbol 'é'"),
        ("*" * 20000 + "a", 20001, "there is no symbol 'a'"),
        ("[1, 2", 6, "not valid JSON: Expecting ',' delimiter"),
        ('{"layer_types": [}', 18, "not valid JSON"),
    ],
)
def test_places_of_errors(text, column, message):
    with at_most_calls(1_000_000):
        with pytest.raises(TextError) as error:
            definition_of_pattern(text, ENCODER, "PATTERN")
    assert message in str(error.value) and error.value.column == column
    assert str(error.value).startswith("PATTERN, line 1, column ")


FULL = '"layer_types": ["full_attention", "full_attention"]'


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "the list of layers is empty; names are full_attention, sliding_attention"),
        ("[" * 100000, "not valid JSON: its values are nested too deeply"),
        ("[" + "9" * 10000 + "]", "not valid JSON"),
        ('["full_attention", "ful_attention"]', "[1], counted from 0, is 'ful_attention' (did you"),
        ('["full_attention", 3]', "[1], counted from 0, is '3', but must be a name"),
        ('[["full_attention"]]', "[0], counted from 0, is '[\"full_attention\"]', but must be"),
        ("{}", "must have one of layer_types, block_types, hybrid_override_pattern"),
        ('{"text_config": {"layer_types": []}}', "none; text_config has: give this part alone"),
        ('{"layer_types": null}', "which hold a pattern, and has none"),
        ('{"layer_types": ["x"], "block_types": ["y"]}', "has both layer_types and block_types"),
        ('{"layer_types": "full_attention"}', "layer_types must be a list of names, found"),
        ('{"layer_types": ["recurrent"]}', "layer_types[0], counted from 0, is 'recurrent'; names"),
        ('{"hybrid_override_pattern": ["M"]}', "must be a string of symbols such as M-M*-"),
        (
            '{"hybrid_override_pattern": "*x"}',
            "hybrid_override_pattern, line 1, column 2: there is",
        ),
        ('{"block_types": ["recurrent"]}', "needs num_hidden_layers: block_types are repeated"),
        (
            '{"block_types": ["recurrent"], "num_hidden_layers": 0}',
            "num_hidden_layers must be an integer from 1 to 2000, found '0'",
        ),
        (
            '{"block_types": ["recurrent"], "num_hidden_layers": true}',
            "num_hidden_layers must be an integer from 1 to 2000, found 'true'",
        ),
        (
            '{"block_types": ["recurrent"], "num_hidden_layers": 1999}',
            "the definition, line 1, column 17: with repetitions and macros expanded, the encoder",
        ),
        ("{" + FULL + ', "num_hidden_layers": 3}', "num_hidden_layers: 3, but layer_types has 2"),
        ("{" + FULL + ', "num_experts": 8}', "num_experts: '8', a mixture of experts"),
        ("*" * 3000, "PATTERN has 3000 layers, more than the 2000 of a side"),
        ("*" * 1000, "the encoder has more than 2000 layers"),
        ("".join(random.Random(1).choices("*-", k=2000)), "the encoder has more than 2000 layers"),
    ],
)
def test_refused_patterns(text, message):
    with at_most_calls(2_000_000):
        with pytest.raises(UserError) as error:
            definition_of_pattern(text, ENCODER, "PATTERN")
    assert message in str(error.value)


def test_white_space_between_symbols():
    assert definition_of_pattern(" *-\n *-\n", ENCODER) == definition_of_pattern("*-*-", ENCODER)


def test_a_decoder_must_see_the_source():
    with pytest.raises(UserError, match="PATTERN has no layer that combines positions"):
        definition_of_pattern("---", DECODER)


@pytest.mark.parametrize("size", [None, 0, -3, "8", 2.5, True])
def test_a_window_needs_its_size(size, all_layers):
    config = {"layer_types": ["sliding_attention"], "sliding_window": size}
    with pytest.raises(UserError, match="its sliding_window, a number of pos"):
        definition_of_pattern(json.dumps(config), ENCODER)
    with pytest.raises(UserError, match=r"\[0\], counted from 0, is 'attention', which can"):
        definition_of_pattern('["attention"]', ENCODER)


def test_layers_that_are_not_registered(monkeypatch):
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    for name in ("mamba2", "rg_lru"):
        registry._ENTRIES.pop(name, None)
    with pytest.raises(TextError) as error:
        definition_of_pattern("*-M-", ENCODER)
    assert "mamba means the layer 'mamba2', which is not registered" in str(error.value)
    assert error.value.column == 3
    with pytest.raises(UserError, match=r"\[1\].* means the layer 'rg_lru', which is not reg"):
        definition_of_pattern('["full_attention", "recurrent"]', ENCODER)
