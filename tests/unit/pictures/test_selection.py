"""``--layers`` and ``--heads``."""

import pytest
import torch

from convs2s.common.errors import UserError
from convs2s.nn.attention import SOURCE, AttentionMap, AttentionMaps
from convs2s.pictures.selection import choose_heads, choose_layers
from tests.support.attention import made_up_maps


def names(layers, *maps):
    return [[found.name for found in of_model] for of_model in choose_layers(maps, layers)]


@pytest.mark.parametrize(
    "layers, expected",
    [
        ("mean", ["source.mean"]),
        ("2", ["source.2"]),
        ("source", ["source.1", "source.2"]),
        ("2, source.1,2", ["source.2", "source.1"]),
        ("encoder.1,max,contributions", None),
        ("decoder,encoder", ["decoder.1", "encoder.1"]),
        (
            "all",
            ["source.mean", "source.1", "source.2", "contributions.max", "decoder.1", "encoder.1"],
        ),
    ],
)
def test_names_of_layers(layers, expected):
    maps = made_up_maps(5, 4)
    if expected is None:
        with pytest.raises(UserError, match="no attention layer 'max'"):
            names(layers, maps)
    else:
        assert names(layers, maps) == [expected]


def test_a_name_that_one_of_two_models_has():
    other = AttentionMaps([AttentionMap(SOURCE, "attn", torch.ones(1, 1, 4, 5), "")])
    assert names("attn,1", made_up_maps(5, 4), other) == [["source.1"], ["source.attn"]]


def test_the_mean_of_a_single_map_is_left_out_of_all():
    maps = AttentionMaps()
    for layer in ("mean", "max"):
        maps.add(SOURCE, torch.ones(1, 1, 4, 5), "", layer)
    assert names("all", maps) == [["source.max"]]


def test_no_layer_attends_to_the_source():
    maps = AttentionMaps(made_up_maps(5, 4).of_kind("encoder"))
    sentence = "No layer of the model attends to the source.* choose from encoder.1 with --layers"
    with pytest.raises(UserError, match=sentence):
        names("mean", maps)


@pytest.mark.parametrize("layers", ["9", "decoder.3", "", "all,9"])
def test_a_layer_that_does_not_exist(layers):
    sentence = "There is no attention layer '.*' .--layers.: the model has source.mean, source.1, "
    with pytest.raises(UserError, match=sentence):
        names(layers, made_up_maps(5, 4))


def test_heads():
    layer = made_up_maps(5, 4, heads=3)[1]
    names, weights = choose_heads(layer, "all")
    assert names == ["1", "2", "3"] and torch.equal(weights, layer.weights[0])
    names, weights = choose_heads(layer, "3, 1")
    assert names == ["3", "1"] and torch.equal(weights, layer.weights[0, [2, 0]])
    names, weights = choose_heads(layer, "mean")
    assert names == ["mean"]
    torch.testing.assert_close(weights, layer.weights.mean(dim=1))


@pytest.mark.parametrize("heads", ["4", "0", "1,x", "-1", ""])
def test_a_head_that_does_not_exist(heads):
    with pytest.raises(UserError, match=r"no head '.*' .* source.1 has heads 1 to 3"):
        choose_heads(made_up_maps(5, 4, heads=3)[1], heads)


def test_the_mean_has_no_single_heads():
    with pytest.raises(UserError, match="source.mean has no single heads .--heads 1."):
        choose_heads(made_up_maps(5, 4)[0], "1")
