"""The checked specification of a model: layers with all arguments and widths, ready to be built.

A specification has no repetitions and no macros left, and names of chains only where they share
weights. Two texts that describe the same network give equal specifications; spelling and places in
the text do not matter.

Needs neither torch nor fairseq.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....common.limits import (
    MAX_HEADS,
    MAX_POSITIONS,
    MAX_WIDTH,
    check_probability,
    check_range,
    option_name,
)
from .tree import Item, Place

ENCODER, DECODER = "encoder", "decoder"


@dataclass(frozen=True)
class Settings:
    """Model options that layers take their defaults from.

    Args:
        model_dim: channels of the embeddings, and of layers without a given width (512).
        ff_dim: inner channels of ``ffl``; None for 4 times its input (section 2.3).
        attention_heads: heads of multi-head attention (8).
        dropout: probability of dropping a channel (0.1).
        attention_dropout: probability of dropping an attention weight; None for ``dropout``.
        max_source_positions: tokens of the longest source, end of sentence included (1024).
        max_target_positions: tokens of the longest target, end of sentence included (1024).
    Raises:
        UserError: if a number is out of range.
    """

    model_dim: int = 512
    ff_dim: int | None = None
    attention_heads: int = 8
    dropout: float = 0.1
    attention_dropout: float | None = None
    max_source_positions: int = 1024
    max_target_positions: int = 1024

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            check_range(option_name(name), getattr(self, name), 1, limit)
        for name in ("dropout", "attention_dropout"):
            check_probability(option_name(name), getattr(self, name))


_LIMITS = {
    "model_dim": MAX_WIDTH,
    "ff_dim": MAX_WIDTH,
    "attention_heads": MAX_HEADS,
    "max_source_positions": MAX_POSITIONS,
    "max_target_positions": MAX_POSITIONS,
}


class LetUse(NamedTuple):
    """One use of the name of a ``let``.

    Attributes:
        name: the name.
        number: number of the use, among all uses in a stack.
        layers: how many layers the use expands to.
    """

    name: str
    number: int
    layers: int


@dataclass(frozen=True)
class LayerSpec:
    """One layer of a model; ``spec["d"]`` is its argument d.

    Attributes:
        name: the name of its type in the registry.
        side: ENCODER or DECODER.
        input_width: channels C of the input.
        settings: the model's options.
        arguments: every argument by name, with defaults; chains are not among them.
        chains: the chains given as arguments, in order.
        width: channels C' of the output.
        source_width: channels of the encoder block that the layer attends to, or None.
        source_blocks: number of the topmost encoder block; None without an encoder.
        owns_weights: False for a ``share`` whose weights are those of an earlier one.
        place: its place in the text.
        items: the arguments as written, by name.
        lets: the names that it was written with, outermost first.
    """

    name: str
    side: str
    input_width: int
    settings: Settings
    arguments: dict[str, Any] = field(default_factory=dict, hash=False)
    chains: tuple[tuple["LayerSpec", ...], ...] = ()
    width: int = 0
    source_width: int | None = None
    source_blocks: int | None = None
    owns_weights: bool = True
    place: Place = field(compare=False, repr=False, default=Place("", 0, ""))
    items: dict[str, tuple[Item, ...]] = field(compare=False, repr=False, default_factory=dict)
    lets: tuple[LetUse, ...] = field(compare=False, repr=False, default=())

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    @property
    def in_decoder(self) -> bool:
        return self.side == DECODER

    @property
    def max_positions(self) -> int:
        """Tokens of the longest sentence on its side."""
        settings = self.settings
        return settings.max_target_positions if self.in_decoder else settings.max_source_positions

    def place_of(self, argument: str) -> Place:
        """The place of an argument, or of the layer if the argument was not written."""
        items = self.items.get(argument)
        return items[0].place if items else self.place

    def walk(self) -> Iterator["LayerSpec"]:
        """This layer and all layers inside it."""
        yield self
        for chain in self.chains:
            for layer in chain:
                yield from layer.walk()


@dataclass(frozen=True)
class StackSpec:
    """The layers of an encoder or a decoder.

    A decoder can attend to each block of the encoder by its number. If the chain has repetitions
    at its top level, each copy is a block, together with the layers up to the next copy; layers
    before the first copy belong to no block. Otherwise, every layer is a block. Block 0 is the
    input of the first block; the output of the last block is the output of the stack.

    Attributes:
        side: ENCODER or DECODER.
        input_width: channels of the input.
        layers: the chain.
        starts: index into ``layers`` of the first layer of each block.
    """

    side: str
    input_width: int
    layers: tuple[LayerSpec, ...]
    starts: tuple[int, ...]

    @property
    def width(self) -> int:
        """Channels of the output."""
        return self.layers[-1].width

    @property
    def blocks(self) -> int:
        """Number of the topmost block."""
        return len(self.starts)

    def block_end(self, block: int) -> int:
        """Number of layers up to the output of a block (0: up to the input of the first)."""
        return (*self.starts, len(self.layers))[block]

    def block_width(self, block: int) -> int:
        """Channels of the output of a block."""
        end = self.block_end(block)
        return self.layers[end - 1].width if end else self.input_width

    def walk(self) -> Iterator[LayerSpec]:
        """Every layer, at any depth."""
        for layer in self.layers:
            yield from layer.walk()


@dataclass(frozen=True)
class ModelSpec:
    """A whole model.

    Attributes:
        encoder, decoder: its two stacks.
        settings: the options that it was resolved with.
        input_feeding: whether the decoder's input is the embedding of the previous token
            concatenated with the decoder's previous output (section 2.4).
        warnings: sentences about definitions that are allowed, but probably not intended.
    """

    encoder: StackSpec
    decoder: StackSpec
    settings: Settings
    input_feeding: bool = False
    warnings: tuple[str, ...] = field(compare=False, default=())
