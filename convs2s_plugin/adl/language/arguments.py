"""What the arguments of a layer may be, and how written ones find their names.

Knows neither torch nor fairseq.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .tree import Call, Chain, Index, Item, Number, Place, Value, nearest, shorten, write

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Refusal(Exception):
    """Why a layer cannot stand where it does; the place in the text is added by the reader.

    Args:
        message: a sentence without its full stop.
        argument: the argument that it is about, if it is about one.
        place: where in the text the fault lies, if neither in the argument nor in the layer's name.
    """

    def __init__(self, message: str, argument: str = "", place: Place | None = None):
        super().__init__(message)
        self.message, self.argument, self.place = message, argument, place


@dataclass(frozen=True)
class Integer:
    """An integer from ``low`` to ``high``; ``i`` inside a repetition."""

    low: int
    high: int

    def read(self, value: Value) -> int:
        if isinstance(value, Number) and isinstance(value.value, int):
            if self.low <= value.value <= self.high:
                return value.value
        raise Refusal(f"must be {self}, found '{shorten(write(value))}'")

    def write(self, value: int) -> str:
        return str(value)

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Real:
    """A number from ``low`` to ``high``."""

    low: float
    high: float

    def read(self, value: Value) -> float:
        if isinstance(value, Number) and self.low <= value.value <= self.high:
            return float(value.value)
        raise Refusal(f"must be {self}, found '{shorten(write(value))}'")

    def write(self, value: float) -> str:
        return repr(int(value) if value == int(value) else value)

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def read(self, value: Value) -> str:
        word = write(value)
        if word in self.words:
            return word
        raise Refusal(f"must be {self}, found '{shorten(word)}'{nearest(word, self.words)}")

    def write(self, value: str) -> str:
        return value

    def __str__(self) -> str:
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True)
class Flag:
    """``true`` or ``false``."""

    def read(self, value: Value) -> bool:
        word = write(value).lower()
        if word in ("true", "false"):
            return word == "true"
        raise Refusal(f"must be {self}, found '{shorten(word)}'")

    def write(self, value: bool) -> str:
        return str(value).lower()

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class SubChain:
    """A chain of layers; with ``many``, all further positional arguments are chains."""

    many: bool = False

    def read(self, value: Value) -> Chain:
        if isinstance(value, (Number, Index)):
            raise Refusal(f"must be {self}, found '{shorten(write(value))}'")
        return value

    def __str__(self) -> str:
        return "chains of layers" if self.many else "a chain of layers"


Kind = Integer | Real | Choice | Flag | SubChain


@dataclass(frozen=True)
class Default:
    """A default that follows from the layer's surroundings.

    Args:
        value: makes it from the layer, of which input width, side, settings and the other
            arguments are known.
        text: what it is, for the list of layers.
    """

    value: Callable[[Any], Any]
    text: str


REQUIRED = Default(lambda layer: None, "")


@dataclass(frozen=True)
class Argument:
    """One argument of a layer: its name, what it may be, its default, one line about it."""

    name: str
    kind: Kind
    default: Any = REQUIRED
    help: str = ""

    def __post_init__(self):
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"'{self.name}' cannot be the name of an argument.")


def default_of(argument: Argument, layer: Any) -> Any:
    """The default of an argument of a layer."""
    default = argument.default
    return default.value(layer) if isinstance(default, Default) else default


def bind(call: Call, arguments: Sequence[Argument]) -> dict[str, tuple[Item, ...]]:
    """Give every written argument of a layer its name.

    Args:
        call: the layer as written.
        arguments: what the layer declares.
    Returns:
        Name to what was written for it; several items only for chains in any number.
    Raises:
        TextError: an unknown or repeated name, too many arguments, or one that is missing.
    """
    known = {argument.name: argument for argument in arguments}
    bound: dict[str, tuple[Item, ...]] = {}
    position, named = 0, False
    for item in call.items:
        if item.name is None:
            if named:
                raise item.place.refuse("an argument without a name follows one with a name")
            if position >= len(arguments):
                raise item.place.refuse(f"'{call.name}' takes {_allowed(arguments)}")
            argument = arguments[position]
            bound[argument.name] = (*bound.get(argument.name, ()), item)
            position += not (isinstance(argument.kind, SubChain) and argument.kind.many)
            continue
        named = True
        if item.name not in known:
            raise item.place.refuse(
                f"'{call.name}' has no argument '{shorten(item.name)}'"
                f"{nearest(item.name, known)}; it takes {_allowed(arguments)}"
            )
        if item.name in bound:
            raise item.place.refuse(f"'{item.name}' is given twice")
        bound[item.name] = (item,)
    for argument in arguments:
        if argument.default is REQUIRED and argument.name not in bound:
            raise call.place.refuse(
                f"'{call.name}' needs its argument '{argument.name}', {argument.kind}"
            )
    return bound


def _allowed(arguments: Sequence[Argument]) -> str:
    names = ", ".join(argument.name for argument in arguments)
    if not arguments:
        return "no arguments"
    return f"only the argument {names}" if len(arguments) == 1 else f"the arguments {names}"


def make_item(name: str, value: int | float | str | Chain, place: Place) -> Item:
    """A named argument, as if it had been written at ``place``."""
    node: Value
    if isinstance(value, tuple):
        node = value
    elif isinstance(value, bool):
        node = (Call(str(value).lower(), (), place),)
    elif isinstance(value, str):
        node = (Call(value, (), place),)
    else:
        node = Number(value, place)
    return Item(name, node, place)
