"""The registry of layers: the declaration of every layer that definitions may name.

A declaration states the layer's arguments, output width, receptive field, cost and number of
parameters. The resolver, its checks, ``convs2s adl explain`` and ``convs2s adl layers`` need
nothing else. It may be a decorator of the class that implements the layer; one decorator makes a
layer complete:

    @register_layer(
        "gain",
        "multiplies every channel by a learned number",
        Argument("start", Real(0, 10), 1.0, "initial value"),
        reach=POSITION,
    )
    class Gain(nn.Module):
        def __init__(self, spec):
            super().__init__()
            self.weight = nn.Parameter(torch.full((spec.input_width,), spec["start"]))

        def forward(self, x, context):
            return x * self.weight

The class is built from its `LayerSpec` (widths, arguments, side and settings of the resolved layer)
and called with x (B x T x C) and a `Context`. The layers of the package are declared in
``language/layers``, which needs no torch, and implemented in ``adl/layers``.

``reach``, the receptive field, is required, because it decides whether a layer may be used in a
decoder: a layer that sees positions to its right is an error there.

Needs neither torch nor fairseq.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ....common.limits import MAX_ADL_LAYERS
from .arguments import Argument, Default, Integer
from .parser import RESERVED
from .spec import LayerSpec
from .tree import Chain, Item

UNBOUNDED = float("inf")
# What definitions may contain besides layers.
FORMS = {
    "repeat(n, chain)": "`n` copies of a chain, each with its own weights",
    "cycle(n, chains)": "`n` copies in all, of several chains in turn, each with its own weights",
}


class Reach(NamedTuple):
    """A receptive field: the input positions to the left and to the right that an output sees."""

    left: float
    right: float

    @property
    def mirrored(self) -> "Reach":
        """The same for a chain that reads from right to left."""
        return Reach(self.right, self.left)


POSITION = Reach(0, 0)
PAST = Reach(UNBOUNDED, 0)
SENTENCE = Reach(UNBOUNDED, UNBOUNDED)


class Cost(NamedTuple):
    """Multiply-adds of a layer in matrix multiplications, without the chains inside it.

    Sums, gates and normalizations are not counted.

    Args:
        position: for each position.
        pair: for each position and each position that it attends to.
        source: for each source position, once per sentence (keys and values).
        chunk: where a sentence is cut into chunks, the most positions in one of them (0 for whole
            sentences).
        chunk_pair: for each position and each position of its chunk.
        state: for each position of the second and later chunks (what a chunk passes to the next
            one).
    """

    position: int = 0
    pair: int = 0
    source: int = 0
    chunk: int = 0
    chunk_pair: int = 0
    state: int = 0

    def of_position(self, length: int) -> int:
        """Multiply-adds for one position of sentences of ``length`` tokens.

        Source and target are equally long, so that each position has the cost of one source
        position.
        """
        chunks = -(-length // self.chunk) if self.chunk else 1
        size = -(-length // chunks)
        in_chunks = self.chunk_pair * chunks * size + self.state * (chunks - 1)
        return self.position + self.source + self.pair * length - (-in_chunks * size // length)


BLOCK = Argument(
    "block",
    Integer(-MAX_ADL_LAYERS, MAX_ADL_LAYERS),
    Default(lambda spec: spec.source_blocks, "the topmost"),
    "encoder block to attend to: 1, 2, ... from below, -1, -2, ... from the top, 0 for the input "
    "of the first",
)


@dataclass(frozen=True)
class LayerType:
    """A declared layer; see `register_layer`.

    ``module`` is the class that implements it; None for a layer of the package, whose module is
    found in ``adl/layers``. A layer with ``copies`` takes one chain and makes this many copies of
    it, each with its own weights.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    reach: Reach | Callable[[LayerSpec], Reach]
    width: Callable[[LayerSpec], int] | None = None
    check: Callable[[LayerSpec], None] | None = None
    cost: Cost | Callable[[LayerSpec], Cost] | None = None
    parameters: int | Callable[[LayerSpec], int] | None = None
    parallel: bool = True
    attends: bool = False
    module: type | None = None
    copies: int = 1

    def reach_of(self, spec: LayerSpec) -> Reach:
        """The receptive field of one layer, without the chains inside it."""
        return self.reach if isinstance(self.reach, Reach) else self.reach(spec)

    def cost_of(self, spec: LayerSpec) -> Cost | None:
        """The cost of one layer, without the chains inside it; None if none is declared."""
        return self.cost(spec) if callable(self.cost) else self.cost

    def parameters_of(self, spec: LayerSpec) -> int | None:
        """The parameters of one layer, without the chains inside it; None if not declared."""
        return self.parameters(spec) if callable(self.parameters) else self.parameters

    @property
    def origin(self) -> Any:
        """Identifies the declaration, which may run again, among all that have the same name."""
        module = self.module
        return (module.__module__, module.__qualname__) if module else self.summary


@dataclass(frozen=True)
class Macro:
    """A name for other layers.

    Args:
        name, summary, arguments: as for a layer.
        expand: a function that returns the chain of layers. Its arguments are the LayerSpec so far
            (input width, side, settings, place, arguments) and the written items by name.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    expand: Callable[[LayerSpec, dict[str, tuple[Item, ...]]], Chain]

    @property
    def origin(self) -> Any:
        """Identifies the declaration, which may run again, among all that have the same name."""
        return self.expand.__module__, getattr(self.expand, "__qualname__", self.expand)


_ENTRIES: dict[str, LayerType | Macro] = {}
_UNSUPPORTED: dict[str, str] = {}


def register_layer(
    name: str,
    summary: str,
    *arguments: Argument,
    reach: Reach | Callable[[LayerSpec], Reach],
    width: Callable[[LayerSpec], int] | None = None,
    check: Callable[[LayerSpec], None] | None = None,
    cost: Cost | Callable[[LayerSpec], Cost] | None = None,
    parameters: int | Callable[[LayerSpec], int] | None = None,
    parallel: bool = True,
    attends: bool = False,
) -> Callable[[type], type]:
    """Declare an nn.Module class as a layer that definitions may name.

    Functions are called with the resolved layer. One class may serve several names, with one
    decorator each.

    Args:
        name: the name in definitions.
        summary: one line for the list of layers.
        arguments: the arguments, in the order in which they may be given by position.
        reach: the receptive field, without chains inside the layer: POSITION, PAST, SENTENCE,
            Reach(left, right), or a function.
        width: channels of the output (None: as many as the input has).
        check: raises LayerError for a layer that cannot be built (None: no check).
        cost: multiply-adds in matrix multiplications: a Cost or a function (None: unknown).
        parameters: the number of parameters, without chains inside the layer: an integer or a
            function (None: the module is built to count them).
        parallel: whether training computes all positions of a sentence at once (True).
        attends: whether the layer attends to the source; BLOCK must be among its arguments
            (False).
    Returns:
        A decorator that returns the class unchanged.
    Raises:
        ValueError: if the name is taken or is not a valid name, or the arguments do not fit
            together.
    """

    def decorator(cls: type) -> type:
        entry = LayerType(
            name, summary, arguments, reach, width, check, cost, parameters, parallel, attends, cls
        )
        register(entry)
        return cls

    return decorator


def declare(name: str, summary: str, *arguments: Argument, **facts: Any) -> None:
    """Declare a layer of the package, whose module names it with ``adl.layers.implements``.

    Args:
        name, summary, arguments, facts: as for `register_layer`.
    """
    register(LayerType(name, summary, arguments, **facts))


def register(entry: LayerType | Macro) -> None:
    """Add a declaration. The same declaration may run again, as it does in a notebook."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", entry.name) or entry.name in RESERVED:
        raise ValueError(f"'{entry.name}' cannot be the name of a layer.")
    known = _ENTRIES.get(entry.name)
    if known is not None and known.origin != entry.origin:
        raise ValueError(f"There is already a layer '{entry.name}': choose another name.")
    names = [argument.name for argument in entry.arguments]
    if len(set(names)) != len(names):
        raise ValueError(f"Layer '{entry.name}' has two arguments of the same name.")
    many = [getattr(argument.kind, "many", False) for argument in entry.arguments]
    if any(many) and (len(many) > 1):
        raise ValueError(f"Layer '{entry.name}': chains in any number must be its only argument.")
    if getattr(entry, "attends", False) and BLOCK not in entry.arguments:
        raise ValueError(f"Layer '{entry.name}' attends to the source: give it BLOCK.")
    _ENTRIES[entry.name] = entry


def register_unsupported(name: str, why: str) -> None:
    """Give a name of other implementations its own error message (without the full stop)."""
    _UNSUPPORTED[name] = why


def entries() -> dict[str, LayerType | Macro]:
    """All declarations by name."""
    return _ENTRIES


def why_unsupported(name: str) -> str | None:
    """The error message for a name that only other implementations have, or None."""
    return _UNSUPPORTED.get(name)


def layer_type(spec: LayerSpec) -> LayerType:
    """The declaration of a resolved layer."""
    entry = _ENTRIES[spec.name]
    assert isinstance(entry, LayerType)
    return entry


def receptive_field(layers: Iterable[LayerSpec]) -> Reach:
    """The receptive field of a chain: the positions of its input that an output sees."""
    left = right = 0.0
    for layer in layers:
        own = layer_type(layer).reach_of(layer)
        inner = [receptive_field(chain) for chain in layer.chains] or [POSITION]
        left += own.left + max(chain.left for chain in inner)
        right += own.right + max(chain.right for chain in inner)
    return Reach(left, right)
