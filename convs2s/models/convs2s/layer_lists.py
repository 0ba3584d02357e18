"""Parser for lists of layers in the notation of fairseq's fconv: ``[(512, 3)] * 9 + [(1024, 1)]``.

    list   = term { "+" term }
    term   = "[" [ item { "," item } ] "]" [ "*" integer ]
    item   = "(" integer "," integer [ "," integer ] ")"    (layers)
           | "True" | "False"                               (attention)

The text is parsed, never evaluated. This module imports neither torch nor fairseq.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ...common.errors import UserError
from ...common.limits import MAX_KERNEL_SIZE, MAX_LAYERS, MAX_WIDTH
from ...common.literals import LiteralParser

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


class _LayerListParser(LiteralParser):
    """The parts of a layer list."""

    def layers(self, item: Callable[[], Item]) -> list[Item]:
        """Consume a sum of lists of items, up to the end of the text."""

        def term() -> list[Item]:
            self.expect("[")
            return self.items("]", item)

        layers: list[Item] = self.sum(term, 1, MAX_LAYERS, "layers")
        self.expect_end("'+' or the end")
        return layers

    def convolution(self) -> ConvSpec:
        """Consume one convolutional layer."""
        self.expect("(")
        channels = self.integer("the number of channels", 1, MAX_WIDTH)
        self.expect(",")
        kernel_size = self.integer("the kernel size", 1, MAX_KERNEL_SIZE)
        residual = 1
        if self.accept(",") and self.token != ")":
            residual = self.integer("the residual connection", 0, MAX_LAYERS)
        self.expect(")")
        return ConvSpec(channels, kernel_size, residual)

    def flag(self) -> bool:
        """Consume one flag."""
        token = self.token
        self.expect("True", "False")
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
    layers = parser.layers(parser.convolution)
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
        flags = [parser.flag()] * layers
        parser.expect_end()
    else:
        flags = parser.layers(parser.flag)
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
