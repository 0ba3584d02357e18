"""What a definition means: layers with all arguments and widths, ready to be built.

A recipe has no repetitions and no abbreviations left. Two texts that describe the same network
give equal recipes, whatever their spelling; places in the text do not count.

Knows neither torch nor fairseq.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import UserError
from .tree import Item, Place

ENCODER, DECODER = "encoder", "decoder"
MAX_WIDTH = 65536
MAX_HEADS = 1024
MAX_POSITIONS = 10**6


@dataclass(frozen=True)
class Settings:
    """What the model's options say about every layer that says nothing else.

    Args:
        model_dim: channels of the embeddings and of layers whose width is not given (512).
        ff_dim: inner channels of ``ffl``; None for 4 times its input (section 2.3).
        attention_heads: heads of multi-head attention (8).
        dropout: probability of dropping a channel (0.1).
        attention_dropout: probability of dropping an attention weight; None for ``dropout``.
        max_source_positions: words of the longest source, end of sentence included (1024).
        max_target_positions: the same of the target.
    Raises:
        UserError: where a number is out of range.
    """

    model_dim: int = 512
    ff_dim: int | None = None
    attention_heads: int = 8
    dropout: float = 0.1
    attention_dropout: float | None = None
    max_source_positions: int = 1024
    max_target_positions: int = 1024

    def __post_init__(self):
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                option = "--" + name.replace("_", "-")
                raise UserError(f"{option} is {value}, but must be from {low} to {high}.")


_RANGES = (
    ("model_dim", 1, MAX_WIDTH),
    ("ff_dim", 1, MAX_WIDTH),
    ("attention_heads", 1, MAX_HEADS),
    ("dropout", 0, 1),
    ("attention_dropout", 0, 1),
    ("max_source_positions", 1, MAX_POSITIONS),
    ("max_target_positions", 1, MAX_POSITIONS),
)


@dataclass(frozen=True)
class LayerSpec:
    """One layer of a recipe; ``layer["d"]`` is its argument d.

    Attributes:
        name: its type in the registry.
        side: ENCODER or DECODER.
        input_width, width: channels C that go in and come out.
        arguments: every argument by name, defaults filled in; chains are not among them.
        chains: the chains given as arguments, in order.
        source_width: channels of the encoder block that it attends to, or None.
        source_blocks: the number of the encoder's topmost block; None where there is nothing to
            attend to.
        settings: the model's options.
        place: where it stands in the text.
        items: the arguments as written, by name.
    """

    name: str
    side: str
    input_width: int
    settings: Settings
    arguments: dict[str, Any] = field(default_factory=dict)
    chains: tuple[tuple["LayerSpec", ...], ...] = ()
    width: int = 0
    source_width: int | None = None
    source_blocks: int | None = None
    place: Place = field(compare=False, repr=False, default=Place("", 0, ""))
    items: dict[str, tuple[Item, ...]] = field(compare=False, repr=False, default_factory=dict)

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    @property
    def in_decoder(self) -> bool:
        return self.side == DECODER

    def place_of(self, argument: str) -> Place:
        """Where an argument was written, or the layer itself where it was not."""
        items = self.items.get(argument)
        return items[0].place if items else self.place

    def walk(self) -> Iterator["LayerSpec"]:
        """This layer and all that it contains."""
        yield self
        for chain in self.chains:
            for layer in chain:
                yield from layer.walk()


@dataclass(frozen=True)
class StackSpec:
    """The layers of an encoder or of a decoder.

    Blocks are what a decoder can attend to by number. Where the chain has repetitions at its top
    level, each of them is a block, together with what follows it up to the next; what precedes
    the first block belongs to none. Where it has none, every layer is a block. Block 0 is what
    goes into the first block; the last block is the output.

    Attributes:
        side: ENCODER or DECODER.
        input_width: channels of what goes in.
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
        """The number of the topmost block."""
        return len(self.starts)

    def block_end(self, block: int) -> int:
        """How many layers lead to the output of a block (0: to the input of the first)."""
        return (*self.starts, len(self.layers))[block]

    def block_width(self, block: int) -> int:
        """Channels of the output of a block."""
        end = self.block_end(block)
        return self.layers[end - 1].width if end else self.input_width

    def walk(self) -> Iterator[LayerSpec]:
        """Every layer, at whatever depth."""
        for layer in self.layers:
            yield from layer.walk()


@dataclass(frozen=True)
class ModelSpec:
    """A whole model.

    Attributes:
        encoder, decoder: its sides.
        settings: the options that it was resolved with.
        input_feeding: whether the decoder's input is the word's embedding joined to the last
            output of the decoder (section 2.4).
        warnings: what is allowed but probably not meant.
    """

    encoder: StackSpec
    decoder: StackSpec
    settings: Settings
    input_feeding: bool = False
    warnings: tuple[str, ...] = field(compare=False, default=())
