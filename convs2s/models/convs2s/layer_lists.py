"""Parser for lists of layers in the notation of fairseq's fconv: ``[(512, 3)] * 9 + [(1024, 1)]``.

    list   = term { "+" term }
    term   = "[" [ item { "," item } ] "]" [ "*" integer ]
    item   = "(" integer "," integer [ "," integer ] ")"    (layers)
           | "True" | "False"                               (attention)

The text is parsed, never evaluated. This module imports neither torch nor fairseq.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ...common.errors import TextError, UserError
from ...common.limits import MAX_KERNEL_SIZE, MAX_LAYERS, MAX_WIDTH

MAX_CHARACTERS = 10000

END = "the end"

_TOKEN = re.compile(r"\s*(?:(?P<number>-?\d+)|(?P<name>[A-Za-z_]\w*)|(?P<mark>[][(),+*]))")

Item = TypeVar("Item")


class ConvSpec(NamedTuple):
    """One convolutional layer.

    Attributes:
        channels: output channels.
        kernel_size: number of positions that the convolution reads.
        residual: number of layers that the residual connection skips: 1 adds the input of this
            layer to its output, 2 the input of the previous layer; 0 means no connection.
    """

    channels: int
    kernel_size: int
    residual: int = 1


class _LayerListParser:
    """The tokens of a layer list, and methods that consume them from left to right.

    Args:
        text: the layer list.
        source: name of the option, for error messages.
    """

    def __init__(self, text: str, source: str):
        self.text, self.source = text, source
        self.tokens: list[tuple[str, int]] = []
        if len(text) > MAX_CHARACTERS:
            raise self.error(
                f"{len(text)} characters are more than the {MAX_CHARACTERS} allowed", MAX_CHARACTERS
            )
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                raise self.error(f"unexpected character '{text[position]}'", position)
            token = match.group().strip()
            self.tokens.append((token, match.end() - len(token)))
            position = match.end()
        self.tokens.append((END, len(text)))
        self.next = 0

    def error(self, message: str, position: int) -> TextError:
        """An error at a position of the text."""
        return TextError(message, self.text, position, self.source)

    @property
    def token(self) -> str:
        """The next token."""
        return self.tokens[self.next][0]

    @property
    def position(self) -> int:
        """The position of the next token in the text."""
        return self.tokens[self.next][1]

    def accept(self, token: str) -> bool:
        """Consume the next token if it is ``token``; return whether it was."""
        if self.token == token:
            self.next += 1
            return True
        return False

    def expect(self, *allowed: str) -> None:
        """Consume the next token, which must be one of ``allowed``."""
        if not any(self.accept(token) for token in allowed):
            raise self.unexpected(" or ".join(f"'{token}'" for token in allowed))

    def unexpected(self, expected: str) -> TextError:
        """An error that says what was expected instead of the next token."""
        return self.error(f"expected {expected}, found '{self.token}'", self.position)

    def integer(self, name: str, low: int, high: int) -> int:
        """Consume an integer between ``low`` and ``high``, called ``name`` in error messages."""
        position, token = self.position, self.token
        if not re.fullmatch(r"-?\d+", token):
            raise self.unexpected(name)
        self.next += 1
        value = int(token) if len(token) < 12 else high + 1
        if not low <= value <= high:
            raise self.error(f"{name} is {token}, but must be from {low} to {high}", position)
        return value


def _parse_list(parser: _LayerListParser, item: Callable[[_LayerListParser], Item]) -> list[Item]:
    """Parse a sum of terms, each with any number of items.

    Args:
        parser: at the start of the list.
        item: parses one item.
    """
    layers: list[Item] = []
    while True:
        start = parser.position
        parser.expect("[")
        term = []
        while not parser.accept("]"):
            term.append(item(parser))
            if parser.token != "]":
                parser.expect(",", "]")
        if parser.accept("*"):
            term *= parser.integer("the number of repetitions", 1, MAX_LAYERS)
        layers += term
        if len(layers) > MAX_LAYERS:
            raise parser.error(f"{len(layers)} layers are more than {MAX_LAYERS}", start)
        if not parser.accept("+"):
            break
    if parser.token != END:
        raise parser.unexpected("'+' or the end")
    return layers


def _parse_layer(parser: _LayerListParser) -> ConvSpec:
    parser.expect("(")
    channels = parser.integer("the number of channels", 1, MAX_WIDTH)
    parser.expect(",")
    kernel_size = parser.integer("the kernel size", 1, MAX_KERNEL_SIZE)
    residual = 1
    if parser.accept(",") and parser.token != ")":
        residual = parser.integer("the residual connection", 0, MAX_LAYERS)
    parser.expect(")")
    return ConvSpec(channels, kernel_size, residual)


def _parse_flag(parser: _LayerListParser) -> bool:
    token = parser.token
    parser.expect("True", "False")
    return token == "True"


def parse_layers(text: str, source: str = "layers") -> list[ConvSpec]:
    """Parse a list of convolutional layers.

    Args:
        text: e.g. ``[(512, 3)] * 9 + [(1024, 3, 2)] * 4``: channels and kernel size of each layer,
            and optionally the number of layers that its residual connection skips (1).
        source: name of the option, for error messages.
    Returns:
        One ConvSpec per layer.
    Raises:
        TextError: if the text does not follow the grammar or a number is out of range.
        UserError: if a residual connection starts before the first layer.
    """
    parser = _LayerListParser(text, source)
    layers = _parse_list(parser, _parse_layer)
    if not layers:
        raise parser.error("expected at least one layer such as (512, 3)", 0)
    for number, layer in enumerate(layers, 1):
        if layer.residual > number:
            raise UserError(
                f"{source}: the residual connection of layer {number} skips {layer.residual} "
                f"layers, but there are only {number} (0 means no connection, 1 the layer's own "
                "input)."
            )
    return layers


def parse_attention(text: str, layers: int, source: str = "attention") -> list[bool]:
    """Parse the list of decoder layers that attend to the source.

    Args:
        text: ``True`` (all layers), or one flag per layer, e.g. ``[True] * 3 + [False] * 2``.
        layers: the number of decoder layers.
        source: name of the option, for error messages.
    Returns:
        One flag per layer.
    Raises:
        TextError: if the text does not follow the grammar.
        UserError: if there is not one flag per layer, or no layer attends.
    """
    parser = _LayerListParser(text, source)
    if parser.token in ("True", "False"):
        flags = [_parse_flag(parser)] * layers
        if parser.token != END:
            raise parser.unexpected("the end")
    else:
        flags = _parse_list(parser, _parse_flag)
    if len(flags) != layers:
        raise UserError(
            f"{source}: {text} has {len(flags)} flags, but the decoder has {layers} layers: "
            "give True, or a list with one flag per layer."
        )
    if not any(flags):
        raise UserError(
            f"{source}: with {text}, no decoder layer attends to the source, and the translation "
            "would not depend on it: give True, or a list with at least one True."
        )
    return flags
