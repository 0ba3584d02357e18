"""Macros (Domhan 2018, section 2.3): names for combinations of other layers.

Needs neither torch nor fairseq.
"""

from dataclasses import dataclass, replace
from typing import Any

from .....common.limits import MAX_WIDTH
from ..arguments import CHAIN, Argument, Default, Integer, make_item
from ..registry import Macro, entries, register
from ..spec import LayerSpec
from ..tree import Call, Chain, Item, Value
from .common import activation_argument

Items = dict[str, tuple[Item, ...]]

FF_WIDTH = Argument(
    "d",
    Integer(1, MAX_WIDTH),
    Default(
        lambda spec: spec.settings.ff_dim or 4 * spec.input_width,
        "--ff-dim, or 4 times the channels of its input",
    ),
    "channels between the two projections",
)


def make_call(spec: LayerSpec, name: str, **values: Any) -> Call:
    """A layer as if it had been written in the place of the macro."""
    items = tuple(make_item(key, value, spec.place) for key, value in values.items())
    return Call(name, items, spec.place)


def expand_res_d(spec: LayerSpec, items: Items) -> Chain:
    inner = (*_written_chain(items), make_call(spec, "dropout"))
    return (make_call(spec, "res", chain=inner),)


def expand_res_nd(spec: LayerSpec, items: Items) -> Chain:
    inner = (make_call(spec, "norm"), *_written_chain(items), make_call(spec, "dropout"))
    return (make_call(spec, "res", chain=inner),)


def expand_ffl(spec: LayerSpec, items: Items) -> Chain:
    return (
        make_call(spec, "ff", d=spec["d"], v=spec["v"]),
        make_call(spec, "linear", d=spec.input_width),
    )


def _written_chain(items: Items) -> Chain:
    value: Value = items["chain"][0].value
    assert isinstance(value, tuple)
    return value


@dataclass(frozen=True)
class Alias:
    """Expands to one layer, with some of its arguments fixed."""

    target: str
    fixed: dict[str, Any]

    def __call__(self, spec: LayerSpec, items: Items) -> Chain:
        written = (replace(item, name=name) for name, given in items.items() for item in given)
        call = make_call(spec, self.target, **self.fixed)
        return (replace(call, items=(*call.items, *written)),)


def register_alias(name: str, target: str, summary: str, **fixed: Any) -> None:
    """Declare another name for a layer.

    Args:
        name: the new name.
        target: the name of a registered layer.
        summary: one line for the list of layers.
        fixed: arguments of the layer that the new name fixes.
    """
    arguments = (a for a in entries()[target].arguments if a.name not in fixed)
    register(Macro(name, summary, tuple(arguments), Alias(target, fixed)))


register(Macro("res_d", "res(chain -> dropout) (section 2.3)", (CHAIN,), expand_res_d))
register(Macro("res_nd", "res(norm -> chain -> dropout) (section 2.3)", (CHAIN,), expand_res_nd))
register(
    Macro(
        "ffl",
        "ff(d, v) -> linear(channels of its input) (section 2.3)",
        (FF_WIDTH, activation_argument("relu")),
        expand_ffl,
    )
)
