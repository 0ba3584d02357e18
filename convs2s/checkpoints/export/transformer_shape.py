"""The parts of another program's transformer in a definition in ADL.

Needs neither torch nor fairseq.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...common.errors import TextError, UserError
from ...models.adl.language.arguments import write_value
from ...models.adl.language.spec import LayerSpec, ModelSpec, StackSpec

SELF_ATTENTION, SOURCE_ATTENTION, FEED_FORWARD = (
    "self-attention",
    "source attention",
    "feed-forward",
)
# The residual connections of a block, in their order.
BLOCKS = {
    "encoder": (SELF_ATTENTION, FEED_FORWARD),
    "decoder": (SELF_ATTENTION, SOURCE_ATTENTION, FEED_FORWARD),
}
CHAINS = {
    SELF_ATTENTION: ("mh_dot_self_att",),
    SOURCE_ATTENTION: ("mh_dot_src_att",),
    FEED_FORWARD: ("ff", "linear"),
}
POSITIONS = ("pos", "learn_pos")
# Layers that compute nothing at inference.
NEUTRAL = ("dropout", "id")


@dataclass(frozen=True)
class Target:
    """A program with a transformer, and what this one can have.

    Attributes:
        name: the transformer, for errors.
        purpose: what needs a transformer, for errors.
        activations: non-linearity in ADL -> what the program calls it.
        norms: the normalization layers.
        has_attention_biases: whether attention can have biases.
        sides_alike: whether encoder and decoder have the same non-linearity, and both scale
            embeddings or neither does.
    """

    name: str
    purpose: str
    activations: Mapping[str, Any]
    norms: tuple[str, ...] = ("norm",)
    has_attention_biases: bool = False
    sides_alike: bool = True


class Layer(NamedTuple):
    """A layer and the prefix of its weights in the state dict."""

    path: str
    spec: LayerSpec


class SubLayer(NamedTuple):
    """A residual connection with its layer normalization.

    Attributes:
        kind: SELF_ATTENTION, SOURCE_ATTENTION or FEED_FORWARD.
        layers: the attention layer, or the two layers of the feed-forward network.
        norm: the layer normalization before the layers (pre-norm) or after the sum (post-norm).
    """

    kind: str
    layers: tuple[Layer, ...]
    norm: Layer


@dataclass(frozen=True)
class StackShape:
    """An encoder or a decoder of a transformer.

    Attributes:
        side: "encoder" or "decoder".
        width: channels C.
        positions: the layer that adds positions to the embeddings.
        pre_norm: whether layer normalization precedes the layers of a residual connection.
        blocks: the blocks; other programs call them layers.
        final_norm: the layer normalization after the last block of a pre-norm stack, or None.
    """

    side: str
    width: int
    positions: Layer
    pre_norm: bool
    blocks: tuple[tuple[SubLayer, ...], ...]
    final_norm: Layer | None

    def of_kind(self, *kinds: str) -> list[SubLayer]:
        """All residual connections of some kinds."""
        return [part for block in self.blocks for part in block if part.kind in kinds]

    @property
    def heads(self) -> int:
        """Heads of each attention layer."""
        return self.blocks[0][0].layers[0].spec["h"]

    @property
    def ff_width(self) -> int:
        """Inner channels of each feed-forward network."""
        return self.of_kind(FEED_FORWARD)[0].layers[0].spec["d"]

    @property
    def activation(self) -> str:
        """The non-linearity of each feed-forward network."""
        return self.of_kind(FEED_FORWARD)[0].layers[0].spec["v"]

    @property
    def norm_name(self) -> str:
        """The name of each normalization layer."""
        return self.blocks[0][0].norm.spec.name

    @property
    def scales_embeddings(self) -> bool:
        """Whether embeddings are multiplied by the square root of C."""
        scales: bool = self.positions.spec["scale"]
        return scales


@dataclass(frozen=True)
class TransformerShape:
    """A model of the shape of a transformer."""

    encoder: StackShape
    decoder: StackShape


def transformer_shape(spec: ModelSpec, target: Target) -> TransformerShape:
    """Find the parts of a transformer in a model.

    Args:
        spec: the model.
        target: the program that needs them.
    Raises:
        TextError: if a layer is in the way; the error shows its place.
        UserError: if the model has input feeding.
    """
    if spec.input_feeding:
        raise UserError(
            f"The model has --input-feeding, which {target.name} does not have: {target.purpose} "
            "needs a model without it."
        )
    encoder, decoder = (_Reader(stack, target).stack() for stack in (spec.encoder, spec.decoder))
    if not target.sides_alike:
        return TransformerShape(encoder, decoder)
    if encoder.activation != decoder.activation:
        culprit = decoder.of_kind(FEED_FORWARD)[0].layers[0].spec
        raise culprit.place_of("v").error(
            f"the non-linearity of 'ff' is {culprit['v']} here and {encoder.activation} in the "
            f"encoder, but {target.name} has one for both sides"
        )
    if encoder.scales_embeddings != decoder.scales_embeddings:
        culprit = decoder.positions.spec
        raise culprit.place.error(
            f"'{culprit.name}' scales embeddings on one side only, but {target.name} "
            "scales them on both sides or on none"
        )
    return TransformerShape(encoder, decoder)


class _Reader:
    """Takes the layers of a stack one after the other, for another program."""

    def __init__(self, spec: StackSpec, target: Target):
        self.spec, self.target = spec, target
        self.layers = self._computing(f"{spec.side}.layers", spec.layers)
        self.last = spec.layers[-1]
        names = [layer.name for layer in spec.walk() if layer.name in target.norms]
        self.norm = (names or target.norms)[0]

    def stack(self) -> StackShape:
        """Take all layers of the stack."""
        positions = self.take(POSITIONS, "'pos' or 'learn_pos'")
        pre_norm = self.begins_with_pre_norm()
        blocks: list[tuple[SubLayer, ...]] = []
        while not blocks or not self.at_end(pre_norm):
            kinds = BLOCKS[self.spec.side]
            blocks.append(tuple(self.sub_layer(kind, pre_norm) for kind in kinds))
        final_norm = self.take((self.norm,), f"'{self.norm}'") if pre_norm else None
        if self.layers:
            raise self.in_the_way(self.layers[0].spec, "nothing")
        found = StackShape(
            self.spec.side, self.spec.width, positions, pre_norm, tuple(blocks), final_norm
        )
        self.check(found)
        return found

    def take(self, names: Sequence[str], expected: str) -> Layer:
        """Take a layer that has one of these names."""
        if not self.layers:
            raise self.missing(self.last, expected)
        layer = self.layers.pop(0)
        if layer.spec.name not in names:
            raise self.in_the_way(layer.spec, expected)
        return layer

    def begins_with_pre_norm(self) -> bool:
        """Whether the next residual connection begins with normalization."""
        inner = [part for spec in self.layers[:1] for chain in spec.spec.chains for part in chain]
        return any(part.name == self.norm for part in inner[:1])

    def at_end(self, pre_norm: bool) -> bool:
        """Whether all blocks have been taken."""
        return not self.layers or (pre_norm and self.layers[0].spec.name == self.norm)

    def sub_layer(self, kind: str, pre_norm: bool) -> SubLayer:
        """Take one residual connection."""
        layers = " -> ".join(CHAINS[kind])
        expected = f"'res_nd({layers})'" if pre_norm else f"'res_d({layers}) -> {self.norm}'"
        residual = self.take(("res",), expected)
        inner = self._computing(f"{residual.path}.chain", residual.spec.chains[0])
        names = (*((self.norm,) if pre_norm else ()), *CHAINS[kind])
        for layer, name in zip(inner, names):
            if layer.spec.name != name:
                raise self.in_the_way(layer.spec, f"'{name}'")
        if len(inner) < len(names):
            last = inner[-1].spec if inner else residual.spec
            raise self.missing(last, f"'{names[len(inner)]}'")
        if len(inner) > len(names):
            raise self.in_the_way(inner[len(names)].spec, "nothing")
        if pre_norm:
            return SubLayer(kind, tuple(inner[1:]), inner[0])
        return SubLayer(kind, tuple(inner), self.take((self.norm,), f"'{self.norm}'"))

    def check(self, stack: StackShape) -> None:
        """Check the sizes of the stack."""
        for part in stack.of_kind(SELF_ATTENTION, SOURCE_ATTENTION):
            spec = part.layers[0].spec
            if spec["h"] != stack.heads:
                raise self.differs(spec, "h", stack.heads)
            if spec["d_p"] != stack.width:
                raise spec.place_of("d_p").error(
                    f"'{spec.name}' projects to {spec['d_p']} channels, but attention in "
                    f"{self.target.name} has the {stack.width} channels of its input"
                )
            usual = {"window": None, "kv_heads": spec["h"], "qk_norm": False, "pos": "none"}
            if not self.target.has_attention_biases:
                usual["bias"] = False
            self._check_usual(spec, usual)
            if part.kind == SOURCE_ATTENTION and spec["block"] != spec.source_blocks:
                raise spec.place_of("block").error(
                    f"'{spec.name}' attends to encoder block {spec['block']}, but "
                    f"{self.target.name} to the topmost, {spec.source_blocks}"
                )
        for part in stack.of_kind(FEED_FORWARD):
            spec = part.layers[0].spec
            if spec["v"] not in self.target.activations:
                raise spec.place_of("v").error(
                    f"{self.target.name} has no non-linearity {spec['v']}: it has "
                    f"{', '.join(self.target.activations)}"
                )
            for argument, value in (("d", stack.ff_width), ("v", stack.activation)):
                if spec[argument] != value:
                    raise self.differs(spec, argument, value)

    def _computing(self, path: str, specs: Sequence[LayerSpec]) -> list[Layer]:
        """The layers of a chain that compute something at inference."""
        for spec in specs:
            if spec.name == "norm":
                self._check_usual(spec, {"eps": 1e-6})
        numbered = (Layer(f"{path}.{number}", spec) for number, spec in enumerate(specs))
        return [layer for layer in numbered if layer.spec.name not in NEUTRAL]

    def _check_usual(self, spec: LayerSpec, usual: Mapping[str, Any]) -> None:
        """Check that arguments which are not exported have the values that change nothing."""
        for argument, value in usual.items():
            if (given := spec.arguments.get(argument, value)) != value:
                raise spec.place_of(argument).error(
                    f"'{spec.name}' has {argument}={write_value(given)}, which is not exported to "
                    f"{self.target.name}: omit {argument}"
                )

    def in_the_way(self, spec: LayerSpec, expected: str) -> TextError:
        """The error about a layer that stands in another one's place."""
        return spec.place.error(
            f"'{spec.name}' is in the way of {self.target.purpose}: {self.target.name} has "
            f"{expected} in its place"
        )

    def missing(self, last: LayerSpec, expected: str) -> TextError:
        """The error about an end that comes too soon."""
        return last.place.error(
            f"after '{last.name}', {self.target.purpose} needs {expected}, which "
            f"{self.target.name} has there"
        )

    def differs(self, spec: LayerSpec, argument: str, first: int | str) -> TextError:
        """The error about a layer of another size than that of the first block."""
        return spec.place_of(argument).error(
            f"'{spec.name}' has {argument}={spec[argument]} here and {argument}={first} in the "
            f"first block, but all blocks of the {spec.side} of {self.target.name} are of one size"
        )
