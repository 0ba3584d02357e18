"""The arguments of a layer: their kinds, their defaults, and how written arguments get names.

Needs neither torch nor fairseq.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....common.errors import nearest
from ....common.limits import option_name
from ....common.lines import excerpt
from .tree import Call, Chain, Index, Item, Number, Place, Value, write

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class LayerError(Exception):
    """A layer cannot be built with its arguments or its input; the resolver adds the place.

    Args:
        message: a sentence without its full stop.
        argument: the argument that is wrong, if it is one argument.
        place: the place in the text, if it is neither the argument nor the name of the layer.
    """

    def __init__(self, message: str, argument: str = "", place: Place | None = None):
        super().__init__(message)
        self.message, self.argument, self.place = message, argument, place


@dataclass(frozen=True)
class Integer:
    """An integer from ``low`` to ``high``, or ``i`` inside a repetition."""

    low: int
    high: int

    def parse(self, value: Value) -> int:
        if isinstance(value, Number) and isinstance(value.value, int):
            if self.low <= value.value <= self.high:
                return value.value
        raise LayerError(f"must be {self}, found {excerpt(write(value))}")

    def __str__(self) -> str:
        return f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Real:
    """A number from ``low`` to ``high``."""

    low: float
    high: float

    def parse(self, value: Value) -> float:
        if isinstance(value, Number) and self.low <= value.value <= self.high:
            return float(value.value)
        raise LayerError(f"must be {self}, found {excerpt(write(value))}")

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Probability:
    """The probability of dropping something: a number of at least 0 and below 1."""

    def parse(self, value: Value) -> float:
        if isinstance(value, Number) and 0 <= value.value < 1:
            return float(value.value)
        raise LayerError(f"must be {self}, found {excerpt(write(value))}")

    def __str__(self) -> str:
        return "a number of at least 0 and below 1"


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    names: tuple[str, ...]

    def parse(self, value: Value) -> str:
        name = write(value)
        if name in self.names:
            return name
        raise LayerError(f"must be {self}, found {excerpt(name)}{nearest(name, self.names)}")

    def __str__(self) -> str:
        return "one of " + ", ".join(self.names)


@dataclass(frozen=True)
class Flag:
    """``true`` or ``false``."""

    def parse(self, value: Value) -> bool:
        name = write(value).lower()
        if name in ("true", "false"):
            return name == "true"
        raise LayerError(f"must be {self}, found {excerpt(name)}")

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class SubChain:
    """A chain of layers; with ``many``, all further positional arguments are also chains."""

    many: bool = False

    def parse(self, value: Value) -> Chain:
        if isinstance(value, (Number, Index)):
            raise LayerError(f"must be {self}, found {excerpt(write(value))}")
        return value

    def __str__(self) -> str:
        return "chains of layers" if self.many else "a chain of layers"


@dataclass(frozen=True)
class LetName:
    """The name of a ``let``."""

    def parse(self, value: Value) -> str:
        if isinstance(value, tuple) and len(value) == 1:
            (call,) = value
            if isinstance(call, Call) and not call.items:
                return call.name
        raise LayerError(f"must be {self}, found {excerpt(write(value))}")

    def __str__(self) -> str:
        return "the name of a 'let'"


Kind = Integer | Real | Probability | Choice | Flag | SubChain | LetName


@dataclass(frozen=True)
class Default:
    """A default that is computed from the layer.

    Args:
        value: a function of the LayerSpec. Input width, side, settings and the other arguments
            are known when it is called.
        text: a description for the list of layers.
    """

    value: Callable[[Any], Any]
    text: str


def setting_default(setting: str) -> Default:
    """A default that is a field of the model's Settings."""
    return Default(lambda spec: getattr(spec.settings, setting), option_name(setting))


REQUIRED = Default(lambda spec: None, "")


@dataclass(frozen=True)
class Argument:
    """One argument of a layer.

    Args:
        name: the name in definitions.
        kind: the allowed values.
        default: a value or a Default; REQUIRED if there is none.
        help: one line for the list of layers.
    """

    name: str
    kind: Kind
    default: Any = REQUIRED
    help: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"'{self.name}' cannot be the name of an argument.")


CHAIN = Argument("chain", SubChain())


def write_value(value: bool | int | float | str) -> str:
    """The text of an argument's value; parsing it gives the same value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def default_of(argument: Argument, spec: Any) -> Any:
    """The default of an argument for one LayerSpec."""
    default = argument.default
    return default.value(spec) if isinstance(default, Default) else default


def bind(call: Call, arguments: Sequence[Argument]) -> dict[str, tuple[Item, ...]]:
    """Assign written arguments to declared ones.

    Args:
        call: the layer as written.
        arguments: the declared arguments.
    Returns:
        The written items by argument name: several items only for ``SubChain(many=True)``.
    Raises:
        TextError: if an argument is unknown, repeated or missing, or there are too many.
    """
    known = {argument.name: argument for argument in arguments}
    bound: dict[str, tuple[Item, ...]] = {}
    position, named = 0, False
    for item in call.items:
        if item.name is None:
            if named:
                raise item.place.error("an argument without a name follows one with a name")
            if position >= len(arguments):
                raise item.place.error(f"'{call.name}' takes {_allowed(arguments)}")
            argument = arguments[position]
            bound[argument.name] = (*bound.get(argument.name, ()), item)
            position += not (isinstance(argument.kind, SubChain) and argument.kind.many)
            continue
        named = True
        if item.name not in known:
            raise item.place.error(
                f"'{call.name}' has no argument {excerpt(item.name)}"
                f"{nearest(item.name, known)}; it takes {_allowed(arguments)}"
            )
        if item.name in bound:
            raise item.place.error(f"'{item.name}' is given twice")
        bound[item.name] = (item,)
    for argument in arguments:
        if argument.default is REQUIRED and argument.name not in bound:
            raise call.place.error(
                f"'{call.name}' needs its argument '{argument.name}', {argument.kind}"
            )
    return bound


def parse_item(call: Call, argument: Argument, item: Item, declared: Sequence[Argument]) -> Any:
    """The value of a written argument of a layer.

    Args:
        call: the layer as written.
        argument: the argument.
        item: what was written for it.
        declared: all arguments of the layer, one of which may have been meant.
    Raises:
        TextError: if the value is not allowed.
    """
    try:
        return argument.kind.parse(item.value)
    except LayerError as error:
        message = f"'{call.name}': '{argument.name}' {error.message}"
        text = write(item.value)
        for other in declared:
            if item.name is None and isinstance(other.kind, Choice) and text in other.kind.names:
                message += f" (did you mean '{other.name}={text}'?)"
        raise item.place.error(message) from None


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
