"""Syntax trees -> recipe, with every check that can be made before anything is built.

Knows neither torch nor fairseq.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...errors import UserError
from .arguments import Argument, Refusal, SubChain, bind, default_of
from .parser import MAX_LAYERS, parse
from .registry import UNBOUNDED, LayerType, Macro, entries, layer_type, why_refused
from .sockeye import translate
from .spec import DECODER, ENCODER, MAX_WIDTH, LayerSpec, ModelSpec, Settings, StackSpec
from .tree import Call, Chain, Index, Item, Number, Repeat, nearest, unknown_layer

DIALECTS: dict[str, Callable[[Chain, Settings], Chain]] = {
    "paper": lambda chain, settings: chain,
    "sockeye": translate,
}


def resolve(
    encoder: str,
    decoder: str,
    settings: Settings | None = None,
    dialect: str = "paper",
    input_feeding: bool = False,
    sources: tuple[str, str] = ("--encoder-adl", "--decoder-adl"),
) -> ModelSpec:
    """Read the definition of a model and check all of it.

    Args:
        encoder: its encoder, a chain of layers.
        decoder: its decoder.
        settings: what the model's options say; None for their defaults.
        dialect: "paper" or "sockeye" (the original implementation's).
        input_feeding: whether the decoder's input is the word's embedding joined to the decoder's
            last output (section 2.4).
        sources: what the two texts are, for messages.
    Returns:
        The recipe of the model, and what it warns of.
    Raises:
        TextError: at the place that is wrong.
        UserError: where the dialect is unknown.
    """
    settings = settings or Settings()
    chains = [
        _written(text, settings, dialect, source)
        for text, source in zip((encoder, decoder), sources)
    ]
    source = _Reader(ENCODER, settings).side(chains[0], settings.model_dim)
    target = _decoder(chains[1], settings, source, input_feeding)
    warnings = []
    if not any(_attends(layer) for layer in target.walk()):
        error = target.layers[0].place.refuse(
            "no layer attends to the source, so that the output cannot depend on it"
        )
        warnings.append(str(error))
    return ModelSpec(source, target, settings, input_feeding, tuple(warnings))


def resolve_side(text: str, side: str, settings: Settings, dialect: str, source: str) -> StackSpec:
    """Read one side's network for a model whose other parts are not in ADL, and check all of it.

    Args:
        text: a chain of layers.
        side: ENCODER, or DECODER for one that must not see words to the right.
        settings: what the model's options say.
        dialect: "paper" or "sockeye".
        source: what the text is, for messages.
    Raises:
        TextError: at the place that is wrong; where a layer attends to the source, too.
        UserError: where the dialect is unknown.
    """
    return _Reader(side, settings).side(
        _written(text, settings, dialect, source), settings.model_dim
    )


def _written(text: str, settings: Settings, dialect: str, source: str) -> Chain:
    if dialect not in DIALECTS:
        raise UserError(
            f"There is no ADL dialect '{dialect}'{nearest(dialect, DIALECTS)}: take one of "
            f"{', '.join(DIALECTS)}."
        )
    return DIALECTS[dialect](parse(text, source), settings)


def _decoder(chain: Chain, settings: Settings, source: StackSpec, input_feeding: bool) -> StackSpec:
    word = settings.model_dim
    if not input_feeding:
        return _Reader(DECODER, settings, source).side(chain, word)
    # The input is as wide as word and output together, while the output may follow from the input.
    output = word
    for _ in range(2):
        output = _Reader(DECODER, settings, source, checks=False).side(chain, word + output).width
    note = (
        f"; with input feeding the first layer is given {word + output} channels, {word} of the "
        f"word and {output} of the last output"
    )
    side = _Reader(DECODER, settings, source, note=note).side(chain, word + output)
    if side.width != output:
        raise side.layers[-1].place.refuse(
            "with input feeding the decoder's output is part of its input, so that its width must "
            f"not follow from it: let the decoder begin with 'linear({word})', for example"
        )
    return side


def _attends(layer: LayerSpec) -> bool:
    return layer_type(layer).attends


class _Arguments(dict[str, Any]):
    """Arguments as given; a default is worked out when it is first asked for."""

    layer: LayerSpec

    def __init__(self, declared: Sequence[Argument]):
        super().__init__()
        self.declared = {argument.name: argument for argument in declared}

    def __missing__(self, name: str) -> Any:
        self[name] = default_of(self.declared[name], self.layer)
        return self[name]


class _Reader:
    """Makes the layers of one side.

    ``source`` is the encoder that a decoder attends to; without ``checks`` only widths are
    worked out; ``note`` is added to what a check refuses.
    """

    def __init__(
        self,
        side: str,
        settings: Settings,
        source: StackSpec | None = None,
        checks: bool = True,
        note: str = "",
    ):
        self.name, self.settings, self.source = side, settings, source
        self.checks, self.note = checks, note
        self.count = 0

    def side(self, chain: Chain, width: int) -> StackSpec:
        layers: list[LayerSpec] = []
        starts: list[int] = []
        for part in chain:
            if isinstance(part, Repeat):
                for index in range(1, part.count + 1):
                    starts.append(len(layers))
                    layers += self.chain(part.chain, layers[-1].width if layers else width, index)
            else:
                layers += self.layer(part, layers[-1].width if layers else width, None)
        return StackSpec(self.name, width, tuple(layers), tuple(starts or range(len(layers))))

    def chain(self, chain: Chain, width: int, index: int | None) -> list[LayerSpec]:
        layers: list[LayerSpec] = []
        for part in chain:
            if isinstance(part, Repeat):
                for number in range(1, part.count + 1):
                    layers += self.chain(part.chain, width, number)
                    width = layers[-1].width
            else:
                layers += self.layer(part, width, index)
                width = layers[-1].width
        return layers

    def layer(self, call: Call, width: int, index: int | None) -> list[LayerSpec]:
        """The layer that a name stands for, or the several of an abbreviation."""
        entry = self.entry(call)
        items = {
            name: tuple(_numbered(item, index) for item in given)
            for name, given in bind(call, entry.arguments).items()
        }
        arguments = _Arguments(entry.arguments)
        layer = LayerSpec(
            call.name,
            self.name,
            width,
            self.settings,
            arguments,
            source_blocks=self.source.blocks if self.source else None,
            place=call.place,
            items=items,
        )
        arguments.layer = layer
        scalars = [a for a in entry.arguments if not isinstance(a.kind, SubChain)]
        given: list[Chain] = []
        for argument in entry.arguments:
            values = [_read(call, argument, item) for item in items.get(argument.name, ())]
            if argument not in scalars:
                given += values
            elif values:
                arguments[argument.name] = values[0]
        if isinstance(entry, Macro):
            return self.chain(entry.expand(layer, items), width, index)
        if entry.attends:
            layer = self.attend(layer)
        layer = replace(
            layer,
            arguments={argument.name: layer[argument.name] for argument in scalars},
            chains=tuple(tuple(self.chain(chain, width, index)) for chain in given),
        )
        layer = replace(layer, width=entry.width(layer) if entry.width else width)
        self.count += 1
        if self.count > MAX_LAYERS:
            raise call.place.refuse(
                f"with repetitions and abbreviations written out, the {self.name} has more than "
                f"{MAX_LAYERS} layers"
            )
        if self.checks:
            self.check(entry, layer)
        return [layer]

    def entry(self, call: Call) -> LayerType | Macro:
        entry = entries().get(call.name)
        if entry is None:
            why = why_refused(call.name)
            raise call.place.refuse(why or unknown_layer(call.name, entries()))
        return entry

    def attend(self, layer: LayerSpec) -> LayerSpec:
        """The layer with its block counted from below, and with that block's width."""
        if self.source is None:
            here = "this is the encoder itself"
            if layer.in_decoder:
                here = "here the grid does that, and the layers before it see the target alone"
            raise layer.place.refuse(
                f"'{layer.name}' attends to the source, but {here}: attention within a sentence "
                "is 'mh_dot_self_att'"
            )
        top, block = self.source.blocks, layer["block"]
        number = block if block >= 0 else top + 1 + block
        if not 0 <= number <= top or (block < 0 and number == 0):
            raise layer.place_of("block").refuse(
                f"there is no encoder block {block}: the encoder has {top}, that is 0 to {top} "
                f"from below or -1 to -{top} from the top"
            )
        layer.arguments["block"] = number
        return replace(layer, source_width=self.source.block_width(number))

    def check(self, entry: LayerType, layer: LayerSpec) -> None:
        right = entry.reach_of(layer).right
        if layer.in_decoder and right > 0:
            far = "all positions" if right == UNBOUNDED else f"{right} position(s)"
            # Of a convolution, the padding decides; other layers have no such argument.
            raise layer.place_of("padding").refuse(
                f"'{layer.name}' sees {far} to its right, but a decoder must not see words that it "
                "has still to predict"
            )
        try:
            if layer.width > MAX_WIDTH:
                raise Refusal(f"'{layer.name}' gives {layer.width} channels, more than {MAX_WIDTH}")
            if entry.check:
                entry.check(layer)
        except Refusal as refusal:
            place = refusal.place or layer.place_of(refusal.argument)
            raise place.refuse(refusal.message + self.note) from None


def _numbered(item: Item, index: int | None) -> Item:
    """The argument with the number of the repetition in place of ``i``."""
    if not isinstance(item.value, Index):
        return item
    if index is None:
        raise item.place.refuse("'i' is the number of a repetition, but no repeat is around it")
    return replace(item, value=Number(item.value.sign * index, item.value.place))


def _read(call: Call, argument: Argument, item: Item) -> Any:
    try:
        return argument.kind.read(item.value)
    except Refusal as refusal:
        message = f"'{call.name}': '{argument.name}' {refusal.message}"
        raise item.place.refuse(message) from None
