"""The registry of layers: everything that is known of a layer without building it.

A layer is declared once, here or in a user's own package. The declaration says which arguments
it takes, how wide its output is, how far it sees, what it costs, and which ``nn.Module`` does the
work. The reader of definitions, its checks, ``convs2s adl explain`` and ``convs2s adl layers``
ask the declaration alone, so that a layer that is registered is complete at once:

    @register_layer(
        "gain",
        "multiplies every channel by a learned number",
        Argument("start", Real(0, 10), 1.0, "its first value"),
        reach=POSITION,
    )
    class Gain(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.weight = nn.Parameter(torch.full((layer.input_width,), layer["start"]))

        def forward(self, x, context):
            return x * self.weight

The module is made from the resolved layer (``recipe.Layer``: widths, arguments, side, settings)
and called with x (B x T x C) and the context of the pass. The layers of this package are declared
in ``builtin`` and name their module by its path, which is imported when one is built; that is
why the registry knows neither torch nor fairseq.

``reach`` must be given, for it decides whether a layer may stand in a decoder: a layer that sees
positions to its right is refused there. An abbreviation (``register_macro``) is written out as
other layers before anything is checked.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from .arguments import Argument, Default, Integer
from .parser import MAX_LAYERS
from .spec import LayerSpec
from .tree import Chain, Item

UNBOUNDED = float("inf")
_RESERVED = ("i", "repeat", "true", "false")


class Reach(NamedTuple):
    """How many positions to its left and to its right an output sees of the layer's input."""

    left: float
    right: float


POSITION = Reach(0, 0)
PAST = Reach(UNBOUNDED, 0)
SENTENCE = Reach(UNBOUNDED, UNBOUNDED)


class Cost(NamedTuple):
    """Multiply-adds of a layer, without the chains in it.

    Args:
        position: for each position.
        pair: for each position and each position that it attends to.
        source: for each source position, once a sentence (keys and values).
    """

    position: int = 0
    pair: int = 0
    source: int = 0


BLOCK = Argument(
    "block",
    Integer(-MAX_LAYERS, MAX_LAYERS),
    Default(lambda layer: layer.source_blocks, "the topmost"),
    "encoder block to attend to: 1, 2, ... from below, -1, -2, ... from the top, 0 for what goes "
    "into the first",
)


@dataclass(frozen=True)
class LayerType:
    """A declared layer.

    Functions are given the resolved layer; ``check`` may raise Refusal.

    Args:
        name: as written in definitions.
        summary: one line about it.
        arguments: in the order in which they may be given by position.
        reach: how far it sees, chains within it not counted; required.
        module: the nn.Module class, or "module:Class" relative to this package.
        width: channels of its output; None for those of its input.
        check: refuses what cannot be built.
        parameters: how many it has, chains not counted; None where that is not known.
        cost: its multiply-adds; None where they are not known.
        parallel: whether all positions of a sentence are computed at once in training.
        attends: whether it attends to the source; then BLOCK is among the arguments.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    reach: Reach | Callable[[LayerSpec], Reach]
    module: str | type
    width: Callable[[LayerSpec], int] | None = None
    check: Callable[[LayerSpec], None] | None = None
    parameters: Callable[[LayerSpec], int] | None = None
    cost: Callable[[LayerSpec], Cost] | None = None
    parallel: bool = True
    attends: bool = False

    def reach_of(self, layer: LayerSpec) -> Reach:
        """How far a layer of this type sees, chains within it not counted."""
        return self.reach if isinstance(self.reach, Reach) else self.reach(layer)

    def module_class(self) -> type:
        """The nn.Module class, imported now if need be."""
        if isinstance(self.module, str):
            path, name = self.module.split(":")
            return getattr(import_module(path, __package__), name)
        return self.module


@dataclass(frozen=True)
class Macro:
    """An abbreviation for other layers.

    Args:
        name, summary, arguments: as for a layer.
        expand: makes the chain that it stands for, from the layer so far (widths, side, settings,
            place) and the arguments as written, by name.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    expand: Callable[[LayerSpec, dict[str, tuple[Item, ...]]], Chain]


_ENTRIES: dict[str, LayerType | Macro] = {}
_REFUSED: dict[str, str] = {}


def register_layer(
    name: str, summary: str, *arguments: Argument, reach: Any, **declared: Any
) -> Callable[[type], type]:
    """Make an nn.Module class usable in definitions.

    Args:
        name: as written in definitions.
        summary: one line about it.
        arguments: what it takes, in order.
        reach: how far it sees: POSITION, PAST, SENTENCE, Reach(left, right), or a function of
            the layer; must be given.
        declared: what else LayerType knows.
    Returns:
        A decorator that leaves the class as it is.
    Raises:
        ValueError: the name is taken or cannot be a name, or an argument is ill-placed.
    """

    def decorator(cls: type) -> type:
        register(LayerType(name, summary, arguments, reach, cls, **declared))
        return cls

    return decorator


def register(entry: LayerType | Macro) -> None:
    """Enter a declaration; the same class may be declared again, as a notebook does."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", entry.name) or entry.name in _RESERVED:
        raise ValueError(f"'{entry.name}' cannot be the name of a layer.")
    known = _ENTRIES.get(entry.name)
    if known is not None and _origin(known) != _origin(entry):
        raise ValueError(f"There is a layer '{entry.name}' already: take another name.")
    names = [argument.name for argument in entry.arguments]
    if len(set(names)) != len(names):
        raise ValueError(f"Layer '{entry.name}' has two arguments of one name.")
    many = [getattr(argument.kind, "many", False) for argument in entry.arguments]
    if any(many) and (len(many) > 1):
        raise ValueError(f"Layer '{entry.name}': chains in any number must be its only argument.")
    if getattr(entry, "attends", False) and BLOCK not in entry.arguments:
        raise ValueError(f"Layer '{entry.name}' attends to the source: give it BLOCK.")
    _ENTRIES[entry.name] = entry


def refuse_name(name: str, why: str) -> None:
    """Let a name be refused with a sentence of its own (without the full stop)."""
    _REFUSED[name] = why


def entries() -> dict[str, LayerType | Macro]:
    """Everything that definitions may name, by name."""
    return _ENTRIES


def why_refused(name: str) -> str | None:
    """Why a name is refused that users of other implementations know, or None."""
    return _REFUSED.get(name)


def layer_type(layer: LayerSpec) -> LayerType:
    """The declaration of a resolved layer."""
    return _ENTRIES[layer.name]


def _origin(entry: LayerType | Macro) -> tuple[str, str]:
    thing = entry.module if isinstance(entry, LayerType) else entry.expand
    if isinstance(thing, str):
        return ("", thing)
    return (thing.__module__, thing.__qualname__)
