"""Abbreviations (Domhan 2018, section 2.3): other layers, written shorter."""

from dataclasses import replace

from ..arguments import Argument, Default, Integer, make_item
from ..registry import Macro, entries, register
from ..spec import MAX_WIDTH, LayerSpec
from ..tree import Call, Chain, Item, Value
from .pointwise import CHAIN

Given = dict[str, tuple[Item, ...]]

FF_WIDTH = Argument(
    "d",
    Integer(1, MAX_WIDTH),
    Default(
        lambda layer: layer.settings.ff_dim or 4 * layer.input_width,
        "--ff-dim, or 4 times the channels of its input",
    ),
    "channels between the two projections",
)


def call(layer: LayerSpec, name: str, **values) -> Call:
    """A layer as if it had been written where the abbreviation stands."""
    items = tuple(make_item(key, value, layer.place) for key, value in values.items())
    return Call(name, items, layer.place)


def chain_of(given: Given) -> Chain:
    value: Value = given["chain"][0].value
    assert isinstance(value, tuple)
    return value


def res_d(layer: LayerSpec, given: Given) -> Chain:
    return (call(layer, "res", chain=(*chain_of(given), call(layer, "dropout"))),)


def res_nd(layer: LayerSpec, given: Given) -> Chain:
    inner = (call(layer, "norm"), *chain_of(given), call(layer, "dropout"))
    return (call(layer, "res", chain=inner),)


def ffl(layer: LayerSpec, given: Given) -> Chain:
    return (call(layer, "ff", d=layer["d"]), call(layer, "linear", d=layer.input_width))


def other_name(name: str, target: str, summary: str, **fixed) -> None:
    """Declare ``name`` as ``target`` with some of its arguments fixed."""

    def expand(layer: LayerSpec, given: Given) -> Chain:
        named = (replace(item, name=key) for key, items in given.items() for item in items)
        fixed_call = call(layer, target, **fixed)
        return (replace(fixed_call, items=(*fixed_call.items, *named)),)

    arguments = (a for a in entries()[target].arguments if a.name not in fixed)
    register(Macro(name, summary, tuple(arguments), expand))


register(Macro("res_d", "res(chain -> dropout) (section 2.3)", (CHAIN,), res_d))
register(Macro("res_nd", "res(norm -> chain -> dropout) (section 2.3)", (CHAIN,), res_nd))
register(Macro("ffl", "ff(d) -> linear(channels of its input) (section 2.3)", (FF_WIDTH,), ffl))
other_name("dot_src_att", "mh_dot_src_att", "mh_dot_src_att(h=1) (section 2.3)", h=1)
other_name("dot_self_att", "mh_dot_self_att", "mh_dot_self_att(h=1)", h=1)
for short in ("mh_dot", "proj_dot", "mlp"):
    full = f"{short}_src_att"
    other_name(f"{short}_att", full, f"{full}: attention to the source")
