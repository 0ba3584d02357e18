"""The chains of a definition -> the layers of a stack, with every check of a single layer.

Needs neither torch nor fairseq.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ....common.errors import nearest
from ....common.limits import MAX_ADL_LAYERS, MAX_WIDTH
from ....common.lines import excerpt
from .arguments import Argument, Integer, LayerError, SubChain, bind, default_of, parse_item
from .layers.common import ACTIVATIONS, input_parts
from .parser import MAX_DEPTH
from .registry import UNBOUNDED, LayerType, Macro, entries, why_unsupported
from .spec import LayerSpec, LetUse, Settings, StackSpec
from .tree import Call, Chain, Definition, Index, Item, Let, Number, Repeat, unknown_layer

# In place of the number of a repetition, for layers that must not depend on it.
SHARED = 0


class _Shared(NamedTuple):
    """The first use of a chain with shared weights.

    Attributes:
        first: the layer.
        layers: how many layers there are in it.
        levels: how deeply they are nested.
    """

    first: LayerSpec
    layers: int
    levels: int


class _Arguments(dict[str, Any]):
    """Given arguments by name; a default is computed when it is first needed.

    Args:
        declared: all arguments.
        checks: whether a default must be in the range of its argument.
    """

    spec: LayerSpec

    def __init__(self, declared: Sequence[Argument], checks: bool):
        super().__init__()
        self.declared = {argument.name: argument for argument in declared}
        self.checks = checks

    def __missing__(self, name: str) -> Any:
        value, kind = default_of(self.declared[name], self.spec), self.declared[name].kind
        if self.checks and isinstance(kind, Integer) and isinstance(value, int):
            if not kind.low <= value <= kind.high:
                raise self.spec.place.error(
                    f"'{self.spec.name}': '{name}' would be {value} here, but must be {kind}: "
                    "choose a number"
                )
        self[name] = value
        return value


class Resolver:
    """Resolves the layers of one stack.

    Args:
        side: ENCODER or DECODER.
        settings: the model's options.
        encoder: the stack that layers attend to; None if they cannot attend to the source.
        no_source: why they cannot, for the error message.
        checks: whether to check layers, and not only compute their widths (True).
        note: a text to add to the messages of failed checks.
    """

    def __init__(
        self,
        side: str,
        settings: Settings,
        encoder: StackSpec | None = None,
        no_source: str = "",
        checks: bool = True,
        note: str = "",
    ):
        self.side, self.settings, self.encoder = side, settings, encoder
        self.no_source, self.checks, self.note = no_source, checks, note
        # Layers so far; how deeply the current chain is nested, and the deepest so far.
        self.count = self.depth = self.deepest = 0
        self.lets: tuple[Let, ...] = ()
        self.numbers: dict[str, int] = {}
        # How many of them the current chain can name; how often names were used; which ones were.
        self.visible = self.uses = 0
        self.used: set[str] = set()
        self.shared: dict[str, _Shared] = {}

    def stack(self, definition: Definition, width: int) -> StackSpec:
        """The layers of a definition.

        Args:
            definition: the syntax tree.
            width: channels of the input.
        Raises:
            TextError: if the definition is wrong.
        """
        for let in definition.lets:
            if let.name in entries():
                raise let.place.error(
                    f"'{let.name}' is a layer, and cannot be the name of a chain: choose another "
                    "name"
                )
        self.lets = definition.lets
        self.numbers = {let.name: number for number, let in enumerate(definition.lets)}
        self.visible = len(self.lets)
        starts: list[int] = []
        layers = self.chain(definition.chain, width, None, starts)
        for let in reversed(definition.lets):
            if let.name not in self.used:
                raise let.place.error(f"'{let.name}' is never used: use it, or omit this 'let'")
        return StackSpec(self.side, width, tuple(layers), tuple(starts or range(len(layers))))

    def chain(
        self, chain: Chain, width: int, index: int | None, starts: list[int] | None = None
    ) -> list[LayerSpec]:
        """The layers of a chain.

        Args:
            chain: the syntax tree.
            width: channels of the input.
            index: the number of the innermost repetition around it; None if there is none, and
                SHARED if the layers must not depend on it.
            starts: a list to append the index of the first layer of each copy to, or None.
        """
        layers: list[LayerSpec] = []
        for part in chain:
            if isinstance(part, Repeat):
                self.descend(part)
                for number in range(part.count):
                    if starts is not None:
                        starts.append(len(layers))
                    copied = part.chains[number % len(part.chains)]
                    layers += self.chain(copied, width, number + 1)
                    width = layers[-1].width
                self.depth -= 1
            elif part.name in self.numbers:
                inner: list[int] = []
                layers_of_name = self.named(part, width, index, inner)
                if starts is not None:
                    starts += [len(layers) + start for start in inner]
                layers += layers_of_name
            else:
                layers += self.layer(part, width, index)
            width = layers[-1].width
        return layers

    def descend(self, part: Call | Repeat, levels: int = 1) -> None:
        """Enter a chain that belongs to a part; the caller leaves it by ``depth``."""
        self.depth += levels
        self.deepest = max(self.deepest, self.depth)
        if self.depth > MAX_DEPTH:
            raise part.place.error(
                f"with the chains of each 'let' written out, layers are nested more than "
                f"{MAX_DEPTH} deep"
            )

    def named(
        self, call: Call, width: int, index: int | None, starts: list[int]
    ) -> list[LayerSpec]:
        """The layers of a named chain; arguments as for ``chain``."""
        if call.items:
            message = f"'{call.name}' is the name of a chain, which takes no arguments"
            raise call.items[0].place.error(message)
        self.uses += 1
        use = self.uses
        layers = self.written_out(call.name, call, width, index, starts)
        found = LetUse(call.name, use, len(layers))
        return [replace(layer, lets=(found, *layer.lets)) for layer in layers]

    def written_out(
        self,
        name: str,
        call: Call,
        width: int,
        index: int | None,
        starts: list[int] | None = None,
    ) -> list[LayerSpec]:
        """The layers of the chain of a ``let``; other arguments as for ``chain``."""
        self.descend(call)
        number, visible = self.numbers[name], self.visible
        if number >= visible:
            where = "in its own chain" if number == visible else "before it is defined"
            raise call.place.error(
                f"'{name}' is used {where}: a chain can only use names that are defined before it"
            )
        self.used.add(name)
        self.visible = number
        layers = self.chain(self.lets[number].chain, width, index, starts)
        self.visible = visible
        self.depth -= 1
        return layers

    def share(self, call: Call, spec: LayerSpec) -> LayerSpec:
        """A ``share`` with its chain, and whether its weights are those of an earlier one."""
        name, width = spec["name"], spec.input_width
        if self.numbers.get(name, self.visible) >= self.visible:
            raise spec.place_of("name").error(
                f"'share' takes the name of a 'let' before it, and there is none with the name "
                f"{excerpt(name)}{nearest(name, [let.name for let in self.lets[: self.visible]])}"
            )
        # Without checks, widths may differ from those of the model.
        known = self.shared.get(name) if self.checks else None
        if known is None:
            count, deepest = self.count, self.deepest
            self.deepest = self.depth
            chain = tuple(self.written_out(name, call, width, SHARED))
            levels = self.deepest - self.depth
            self.deepest = max(deepest, self.deepest)
            found = replace(spec, chains=(chain,))
            self.shared[name] = _Shared(found, self.count - count, levels)
            return found
        if width != known.first.input_width:
            where = known.first.place.error("")
            raise spec.place.error(
                f"'share({name})' has {width} input channels here and "
                f"{known.first.input_width} at its first use (line {where.line}, column "
                f"{where.column}), but the same weights need the same number: put "
                f"'linear({known.first.input_width})' before it, for example"
            )
        self.descend(call, known.levels)
        self.depth -= known.levels
        self.add(call, known.layers)
        return replace(spec, chains=known.first.chains, owns_weights=False)

    def add(self, call: Call, layers: int) -> None:
        """Count layers."""
        self.count += layers
        if self.count > MAX_ADL_LAYERS:
            raise call.place.error(
                f"with repetitions and macros expanded, the {self.side} has more than "
                f"{MAX_ADL_LAYERS} layers"
            )

    def layer(self, call: Call, width: int, index: int | None) -> list[LayerSpec]:
        """The specification of a layer, or of all layers of a macro."""
        entry = self.entry(call)
        of_chains = {a.name for a in entry.arguments if isinstance(a.kind, SubChain)}
        items = bind(call, entry.arguments)
        for name, given in items.items():
            numbered = tuple(_replace_index(item, index) for item in given)
            # An error should show a chain as it was written.
            items[name] = given if name in of_chains else numbered
        arguments = _Arguments(entry.arguments, self.checks)
        spec = LayerSpec(
            call.name,
            self.side,
            width,
            self.settings,
            arguments,
            source_blocks=self.encoder.blocks if self.encoder else None,
            place=call.place,
            items=items,
        )
        arguments.spec = spec
        scalars = [a for a in entry.arguments if a.name not in of_chains]
        chains: list[Chain] = []
        for argument in entry.arguments:
            given = items.get(argument.name, ())
            values = [parse_item(call, argument, item, entry.arguments) for item in given]
            if argument not in scalars:
                chains += values
            elif values:
                arguments[argument.name] = values[0]
        if isinstance(entry, Macro):
            return self.chain(entry.expand(spec, items), width, index)
        if entry.attends:
            spec = self.attend(spec)
        spec = replace(spec, arguments={argument.name: spec[argument.name] for argument in scalars})
        if chains:
            self.descend(call)
            resolved = (self.chain(chain, width, index) for chain in chains * entry.copies)
            spec = replace(spec, chains=tuple(map(tuple, resolved)))
            self.depth -= 1
        elif entry.name == "share":
            spec = self.share(call, spec)
        spec = replace(spec, width=entry.width(spec) if entry.width else width)
        self.add(call, 1)
        if self.checks:
            self.check(entry, spec)
        return [spec]

    def entry(self, call: Call) -> LayerType | Macro:
        entry = entries().get(call.name)
        if entry is None:
            why = why_unsupported(call.name)
            if not why and call.name in ACTIVATIONS:
                layer = "ff(v={})" if input_parts(call.name) > 1 else "act({})"
                why = (
                    f"there is no layer '{call.name}', a non-linearity (did you mean "
                    f"'{layer.format(call.name)}'?)"
                )
            known = (*entries(), *self.numbers, "cycle")
            raise call.place.error(why or unknown_layer(call.name, known))
        return entry

    def attend(self, spec: LayerSpec) -> LayerSpec:
        """The layer with its block counted from below, and the width of that block."""
        if self.encoder is None:
            raise spec.place.error(
                f"'{spec.name}' attends to the source, but {self.no_source}: attention within a "
                "sentence is 'mh_dot_self_att'"
            )
        top, block = self.encoder.blocks, spec["block"]
        number = block if block >= 0 else top + 1 + block
        if not 0 <= number <= top or (block < 0 and number == 0):
            raise spec.place_of("block").error(
                f"there is no encoder block {block}: the encoder has {top}, that is 0 to {top} "
                f"from below or -1 to -{top} from the top"
            )
        spec.arguments["block"] = number
        return replace(spec, source_width=self.encoder.block_width(number))

    def check(self, entry: LayerType, spec: LayerSpec) -> None:
        right = entry.reach_of(spec).right
        if spec.in_decoder and right > 0:
            far = "all positions" if right == UNBOUNDED else f"{right} position(s)"
            # The padding of a convolution decides; other layers have no such argument.
            raise spec.place_of("padding").error(
                f"'{spec.name}' sees {far} to its right, but a decoder must not see the tokens "
                "that it still has to predict"
            )
        try:
            if spec.width > MAX_WIDTH:
                raise LayerError(
                    f"'{spec.name}' has {spec.width} output channels, more than {MAX_WIDTH}"
                )
            if entry.check:
                entry.check(spec)
        except LayerError as error:
            place = error.place or spec.place_of(error.argument)
            raise place.error(error.message + self.note) from None


def _replace_index(item: Item, index: int | None) -> Item:
    """The argument with the number of the repetition in place of ``i``."""
    if not isinstance(item.value, Index):
        return item
    if index is None:
        raise item.place.error("'i' is the number of a repetition, but no repeat is around it")
    if index == SHARED:
        raise item.place.error(
            "'i' differs from copy to copy, but 'share' has the same layers everywhere: write a "
            "number, or use the name without 'share'"
        )
    return replace(item, value=Number(item.value.sign * index, item.value.place))
