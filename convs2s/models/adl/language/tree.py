"""The syntax tree of a definition: `parser.parse` makes it, dialects translate it.

Every node carries its place in the text. Equality ignores places. Needs neither torch nor fairseq.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ....common.errors import TextError, nearest
from ....common.lines import excerpt


class Place(NamedTuple):
    """A position in a text, and a name for the text (an option or a file)."""

    text: str
    position: int
    source: str

    def error(self, message: str) -> TextError:
        """An error about this place; the caller raises it."""
        return TextError(message, self.text, self.position, self.source)


@dataclass(frozen=True)
class Number:
    """A number given as an argument."""

    value: int | float
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Index:
    """``i`` or ``-i``: the number of the innermost repetition, from 1, or its negative."""

    sign: int
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Item:
    """One argument as written; ``name`` is None if it is given by position."""

    name: str | None
    value: "Value"
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Call:
    """A name with its arguments: a layer, or a bare name such as ``glu``."""

    name: str
    items: tuple[Item, ...]
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Repeat:
    """``repeat(count, chain)``, or ``cycle(count, chain, chain, ...)`` with several chains."""

    count: int
    chains: tuple["Chain", ...]
    place: Place = field(compare=False, repr=False)


Chain = tuple[Call | Repeat, ...]
Value = Chain | Number | Index


@dataclass(frozen=True)
class Let:
    """``let name = chain;``."""

    name: str
    chain: Chain
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Definition:
    """A whole text: names for chains, in the order of the text, and the chain that uses them."""

    lets: tuple[Let, ...]
    chain: Chain


def unknown_layer(name: str, known: Iterable[str]) -> str:
    """The message for a name that is not a layer."""
    known = sorted(known)
    if near := nearest(name, known):
        return f"there is no layer {excerpt(name)}{near}"
    return f"there is no layer {excerpt(name)}; layers are {', '.join(known)}, and repeat"


def write(value: Value | Definition) -> str:
    """The text of a syntax tree on one line. Parsing it gives the same tree."""
    if isinstance(value, Definition):
        lets = "".join(f"let {let.name} = {write(let.chain)}; " for let in value.lets)
        return lets + write(value.chain)
    if isinstance(value, Number):
        return repr(value.value)
    if isinstance(value, Index):
        return "i" if value.sign > 0 else "-i"
    return " -> ".join(_write_layer(layer) for layer in value)


def _write_layer(layer: Call | Repeat) -> str:
    if isinstance(layer, Repeat):
        name = "repeat" if len(layer.chains) == 1 else "cycle"
        return f"{name}({layer.count}, {', '.join(map(write, layer.chains))})"
    items = [(f"{item.name}=" if item.name else "") + write(item.value) for item in layer.items]
    return f"{layer.name}({', '.join(items)})" if items else layer.name
