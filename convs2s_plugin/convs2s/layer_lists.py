"""The notation of layer lists: ``[(512, 3)] * 9 + [(1024, 3)] * 4``, as fairseq's fconv has it.

    list   = term { "+" term }
    term   = "[" [ item { "," item } ] "]" [ "*" integer ]
    item   = "(" integer { "," integer } ")"          (layers)
           | "True" | "False"                         (attention)

Parsed, never evaluated. Knows neither torch nor fairseq.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ..errors import TextError, UserError

MAX_LAYERS = 1000
MAX_LENGTH = 10000
MAX_WIDTH = 65536
MAX_KERNEL = 1023

_TOKEN = re.compile(r"\s*(?:(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[][(),+*]))")

Item = TypeVar("Item")


class ConvSpec(NamedTuple):
    """One convolution block: channels, kernel width, how many layers back its residual starts."""

    channels: int
    kernel_size: int
    residual: int = 1


class _Reader:
    """A cursor over the tokens of one layer list."""

    def __init__(self, text: str, source: str):
        self.text, self.source = text, source
        self.tokens = []
        if len(text) > MAX_LENGTH:
            raise self.refuse(
                f"{len(text)} characters are more than the {MAX_LENGTH} allowed", MAX_LENGTH
            )
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                raise self.refuse(f"found '{text[place]}', which has no meaning here", place)
            self.tokens.append((match.group().strip(), match.start(match.lastgroup)))
            place = match.end()
        self.tokens.append(("the end", len(text)))
        self.next = 0

    def refuse(self, message: str, position: int) -> TextError:
        return TextError(message, self.text, position, self.source)

    @property
    def token(self) -> str:
        return self.tokens[self.next][0]

    @property
    def position(self) -> int:
        return self.tokens[self.next][1]

    def accept(self, token: str) -> bool:
        if self.token == token:
            self.next += 1
            return True
        return False

    def expect(self, *allowed: str) -> None:
        if not any(self.accept(token) for token in allowed):
            raise self.expected(" or ".join(f"'{token}'" for token in allowed))

    def expected(self, what: str) -> TextError:
        return self.refuse(f"expected {what}, found '{self.token}'", self.position)

    def integer(self, what: str, low: int, high: int) -> int:
        place, token = self.position, self.token
        if not re.fullmatch(r"-?\d+", token):
            raise self.expected(what)
        self.next += 1
        value = int(token) if len(token) < 12 else high + 1
        if not low <= value <= high:
            raise self.refuse(f"{what} is {token}, but must be from {low} to {high}", place)
        return value


def _parse_list(reader: _Reader, item: Callable[[_Reader], Item]) -> list[Item]:
    layers: list[Item] = []
    while True:
        start = reader.position
        reader.expect("[")
        term = []
        while not reader.accept("]"):
            term.append(item(reader))
            if reader.token != "]":
                reader.expect(",", "]")
        if reader.accept("*"):
            term *= reader.integer("the number of repetitions", 1, MAX_LAYERS)
        layers += term
        if len(layers) > MAX_LAYERS:
            raise reader.refuse(f"{len(layers)} layers are more than {MAX_LAYERS}", start)
        if not reader.accept("+"):
            break
    if reader.token != "the end":
        raise reader.expected("'+' or the end")
    return layers


def _parse_layer(reader: _Reader) -> ConvSpec:
    reader.expect("(")
    channels = reader.integer("the width of a layer", 1, MAX_WIDTH)
    reader.expect(",")
    kernel_size = reader.integer("the kernel width", 1, MAX_KERNEL)
    residual = 1
    if reader.accept(",") and reader.token != ")":
        residual = reader.integer("the distance of the residual", 0, MAX_LAYERS)
    reader.expect(")")
    return ConvSpec(channels, kernel_size, residual)


def _parse_flag(reader: _Reader) -> bool:
    token = reader.token
    reader.expect("True", "False")
    return token == "True"


def parse_layers(text: str, source: str = "layers") -> list[ConvSpec]:
    """Read a list of convolution blocks.

    Args:
        text: e.g. ``[(512, 3)] * 9 + [(1024, 3)] * 4``; a third number in the parentheses is the
            number of layers that the residual connection reaches back (0: none; default 1).
        source: the option's name, for messages.
    Returns:
        One ConvSpec a layer.
    Raises:
        TextError: where the text cannot be read, or a number is out of range.
    """
    reader = _Reader(text, source)
    layers = _parse_list(reader, _parse_layer)
    if not layers:
        raise reader.refuse("expected at least one layer such as (512, 3)", 0)
    for number, layer in enumerate(layers, 1):
        if layer.residual > number:
            raise UserError(
                f"{source}: the residual of layer {number} reaches {layer.residual} layers back, "
                f"but only {number} are there (0 means no residual, 1 the layer's own input)."
            )
    return layers


def parse_attention(text: str, layers: int, source: str = "attention") -> list[bool]:
    """Read which decoder layers attend to the source.

    Args:
        text: ``True``, ``False``, or a list such as ``[True] * 3 + [False] * 2``.
        layers: the number of decoder layers.
        source: the option's name, for messages.
    Returns:
        One flag a layer.
    Raises:
        TextError: where the text cannot be read.
        UserError: where the list does not have one flag a layer, or no layer attends.
    """
    reader = _Reader(text, source)
    if reader.token in ("True", "False"):
        flags = [_parse_flag(reader)] * layers
        if reader.token != "the end":
            raise reader.expected("the end")
    else:
        flags = _parse_list(reader, _parse_flag)
    if len(flags) != layers:
        raise UserError(
            f"{source}: {text} has {len(flags)} flags, but the decoder has {layers} layers: "
            "give True, or a list with one flag a layer."
        )
    if not any(flags):
        raise UserError(
            f"{source}: {text} lets no decoder layer attend, so that the output could not depend "
            "on the source: give True, or a list with at least one True."
        )
    return flags
