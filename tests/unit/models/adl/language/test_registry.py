"""The registry: custom layers, those of the package, aliases, and wrong declarations."""

import textwrap

import pytest
import torch
from torch import nn

from convs2s.common.errors import TextError
from convs2s.models import adl
from convs2s.models.adl import (
    BLOCK,
    PAST,
    POSITION,
    SENTENCE,
    Argument,
    Choice,
    Cost,
    Default,
    Integer,
    LayerError,
    Reach,
    Settings,
    SubChain,
    register_layer,
    resolve,
)
from convs2s.models.adl.explain import as_dict, as_text
from convs2s.models.adl.language import registry
from convs2s.models.adl.language.layers.macros import register_alias
from convs2s.models.adl.language.registry import LayerType, declare, entries
from convs2s.models.adl.language.writer import definition
from convs2s.models.adl.layers import chains, common
from convs2s.models.adl.layers.chains import LayerChain, build_layer
from convs2s.models.adl.layers.common import MODULES, implements

SETTINGS = Settings(model_dim=16)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Remove the layers that a test registers."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))


def gain_example():
    """The declaration that the registry's documentation shows."""
    _, example = registry.__doc__.split("layer complete:\n\n")
    return textwrap.dedent(example.split("\n\nThe class")[0])


def declare_gain():
    """Run the declaration that the registry's documentation shows."""
    names = {**vars(adl), "torch": torch, "nn": nn}
    exec(gain_example(), names)
    return names["Gain"]


def test_a_custom_layer():
    gain = declare_gain()
    spec = resolve("res_nd(rnn -> gain(start=2))", "mlp_att -> gain -> res(gain(3))", SETTINGS)
    layer = spec.encoder.layers[0].chains[0][2]
    assert (layer.name, layer.width, layer["start"]) == ("gain", 16, 2.0)
    module = build_layer(layer)
    assert isinstance(module, gain) and module(torch.ones(2, 3, 16), None).eq(2).all()
    assert definition(spec.decoder) == "mlp_src_att -> gain -> res(gain(start=3))"
    with pytest.raises(TextError, match="'gain': 'start' .* found '11'"):
        resolve("gain(11)", "id", SETTINGS)
    with pytest.raises(TextError, match="no layer 'gian' \\(did you mean 'gain'"):
        resolve("gian", "id", SETTINGS)
    assert "multiply-adds of gain: no cost" in as_text(spec, 100, 10)
    assert as_dict(spec, 100, 10)["not_counted"] == ["gain"]
    assert as_dict(spec, 100, 10)["decoder"]["layers"][1]["parameters"] == 16


def test_a_layer_that_declares_everything():
    def check(layer):
        if layer.input_width % layer["groups"]:
            raise LayerError(
                f"{layer['groups']} groups do not divide {layer.input_width}", "groups"
            )

    @register_layer(
        "grouped",
        "a chain, then a projection in groups",
        Argument("groups", Integer(1, 64), Default(lambda layer: layer.input_width // 8, "C / 8")),
        Argument("body", SubChain()),
        Argument("mode", Choice(("sum", "mean")), "sum"),
        reach=lambda layer: Reach(layer["groups"], 0),
        width=lambda layer: layer["groups"],
        check=check,
        cost=lambda layer: Cost(layer.input_width),
        parallel=False,
    )
    class Grouped(nn.Module):
        def __init__(self, spec):
            super().__init__()
            self.body = LayerChain(spec.chains[0])
            self.weight = nn.Parameter(torch.ones(spec.input_width))

    spec = resolve("id", "linear(32) -> grouped(body=cnn, mode=mean) -> mlp_att", SETTINGS)
    layer = spec.decoder.layers[1]
    assert (layer["groups"], layer.width, layer.chains[0][0].name) == (4, 4, "cnn")
    assert definition(spec.decoder).startswith("linear(d=32) -> grouped(body=cnn, mode=mean) ->")
    facts = as_dict(spec, 100, 10)
    assert facts["sequential"] == ["grouped"] and facts["not_counted"] == []
    grouped = facts["decoder"]["layers"][1]
    assert grouped["parameters"] == 32 + grouped["chains"][0][0]["parameters"]
    assert facts["decoder"]["receptive_field"] == {"left": 4 + 2, "right": 0}
    with pytest.raises(TextError, match="5 groups do not divide 16") as error:
        resolve("grouped(groups=5, body=id)", "id", SETTINGS)
    assert error.value.column == 9


def test_a_layer_that_sees_later_positions_is_an_error_in_a_decoder():
    for name, reach in (("peek", Reach(0, 1)), ("whole", SENTENCE), ("past", PAST)):
        register_layer(name, "", reach=reach)(type(name, (nn.Module,), {}))
    resolve("peek -> whole", "past -> mlp_att", SETTINGS)
    for name in ("peek", "whole"):
        with pytest.raises(TextError, match=f"'{name}' sees .* to its right"):
            resolve("id", f"mlp_att -> res({name})", SETTINGS)
    with pytest.raises(TypeError, match="reach"):
        register_layer("careless", "")


def test_a_custom_attention():
    @register_layer(
        "mean_att", "the mean of the source", BLOCK, reach=POSITION, attends=True,
        width=lambda layer: layer.source_width,
    )  # fmt: skip
    class Mean(nn.Module):
        pass

    spec = resolve("linear(8) -> rnn(d=4)", "mean_att(block=1)", SETTINGS)
    assert spec.decoder.width == 8 and spec.warnings == ()
    with pytest.raises(TextError, match="'mean_att' attends to the source"):
        resolve("mean_att", "id", SETTINGS)


def test_wrong_declarations():
    def declare(name, *arguments, **more):
        register_layer(name, "", *arguments, reach=POSITION, **more)(type("C", (), {}))

    k = Argument("k", Integer(1, 3), 1)
    for name in ("rnn", "res_nd"):
        with pytest.raises(ValueError, match=f"There is already a layer '{name}'"):
            declare(name)
    for name in ("i", "repeat", "true", "a-b", "3d", ""):
        with pytest.raises(ValueError, match="cannot be the name of a layer"):
            declare(name)
    with pytest.raises(ValueError, match="two arguments of the same name"):
        declare("twice", k, k)
    with pytest.raises(ValueError, match="must be its only argument"):
        declare("many", k, Argument("chains", SubChain(many=True)))
    with pytest.raises(ValueError, match="give it BLOCK"):
        declare("look", attends=True)
    with pytest.raises(ValueError, match="'a b' cannot be the name"):
        Argument("a b", Integer(1, 3))


def test_a_layer_of_the_package_is_declared_in_one_place_and_implemented_in_another(monkeypatch):
    monkeypatch.setattr(common, "MODULES", dict(MODULES))
    monkeypatch.setattr(chains, "MODULES", common.MODULES)
    declare("halve", "half of its input", reach=POSITION, cost=Cost(), parameters=0)
    spec = resolve("halve", "mlp_att -> halve", SETTINGS)
    assert as_dict(spec, 100, 10)["encoder"]["parameters"] == 0

    @implements("halve", "id")
    class Halve(nn.Module):
        def __init__(self, spec):
            super().__init__()

    assert isinstance(build_layer(spec.encoder.layers[0]), Halve)
    assert common.MODULES["id"] is Halve
    for unknown in ("quarter", "res_nd"):
        with pytest.raises(ValueError, match=f"There is no layer '{unknown}': declare it"):
            implements(unknown)(Halve)


def test_every_layer_of_the_package_has_a_module_and_declares_everything():
    layers = {name: entry for name, entry in entries().items() if isinstance(entry, LayerType)}
    assert layers.keys() == MODULES.keys()
    for name, entry in layers.items():
        assert entry.module is None and None not in (entry.cost, entry.parameters), name


def test_a_module_whose_parameters_are_declared_is_not_built():
    register_layer("big", "", reach=POSITION, cost=Cost(), parameters=lambda spec: spec.width + 1)(
        type("Big", (), {})
    )
    facts = as_dict(resolve("res(big)", "mlp_att", SETTINGS), 100, 10)
    assert facts["encoder"]["parameters"] == 17 and facts["not_counted"] == []


def test_a_layer_that_needs_data_when_it_is_built_is_not_counted():
    @register_layer("normed", "", reach=POSITION, cost=Cost(position=3))
    class Normed(nn.Module):
        def __init__(self, spec):
            super().__init__()
            weight = torch.randn(spec.input_width)
            self.weight = nn.Parameter(weight / weight.norm().item())

    spec = resolve("res_nd(normed -> linear)", "mlp_att", SETTINGS)
    facts = as_dict(spec, 100, 10)
    assert facts["not_counted"] == ["normed"]
    (res,) = facts["encoder"]["layers"]
    assert res["parameters"] == 2 * 16 + 17 * 16 and res["multiply_adds"] == 3 + 16 * 16
    text = as_text(spec, 100, 10)
    assert "Without the parameters of normed" in text
    assert "Without the multiply-adds" not in text


def test_a_layer_that_is_declared_again_is_counted_again():
    for parameters in (3, 5):

        @register_layer("several", "", reach=POSITION, cost=Cost())
        class Several(nn.Module):
            def __init__(self, spec, parameters=parameters):
                super().__init__()
                self.weight = nn.Parameter(torch.empty(parameters))

        spec = resolve("several", "mlp_att", SETTINGS)
        assert as_dict(spec, 100, 10)["encoder"]["parameters"] == parameters


def test_aliases():
    register_alias("wide", "linear", "linear(d=64)", d=64)
    spec = resolve("wide(bias=false)", "id", SETTINGS)
    assert spec == resolve("linear(64, false)", "id", SETTINGS)
    with pytest.raises(TextError, match="'wide' takes only the argument bias"):
        resolve("wide(8, false)", "id", SETTINGS)
    register_alias("wide", "linear", "linear(d=64)", d=64)
    with pytest.raises(ValueError, match="There is already a layer 'wide'"):
        register_alias("wide", "linear", "linear(d=32)", d=32)


def test_the_same_class_may_be_declared_again():
    assert declare_gain() is not declare_gain()
    again = declare_gain()
    assert entries()["gain"].module is again


def test_every_layer_and_argument_is_described():
    for name, entry in entries().items():
        assert entry.summary, name
        for argument in entry.arguments:
            assert argument.help or isinstance(argument.kind, SubChain), (name, argument.name)
