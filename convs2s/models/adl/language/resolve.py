"""Syntax trees -> model specification, with every check that is possible before building.

Needs neither torch nor fairseq.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ....common.errors import UserError, nearest
from ....common.limits import MAX_ADL_LAYERS, MAX_WIDTH
from .arguments import Argument, LayerError, SubChain, bind, default_of, parse_item
from .parser import parse
from .registry import UNBOUNDED, LayerType, Macro, entries, layer_type, why_unsupported
from .sockeye import translate
from .spec import DECODER, ENCODER, LayerSpec, ModelSpec, Settings, StackSpec
from .tree import Call, Chain, Index, Item, Number, Repeat, unknown_layer

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
    """Parse and check the definition of a model.

    Args:
        encoder: the chain of layers of the encoder.
        decoder: the chain of layers of the decoder.
        settings: the model's options (None: their defaults).
        dialect: "paper", or "sockeye" for the language of the original implementation.
        input_feeding: whether the decoder's input is the embedding of the previous token
            concatenated with the decoder's previous output (section 2.4).
        sources: names of the two texts in error messages.
    Returns:
        The specification of the model, with warnings.
    Raises:
        TextError: the definition is wrong; the error shows the place.
        UserError: the dialect is unknown.
    """
    settings = settings or Settings()
    chains = [
        _parse(text, settings, dialect, source) for text, source in zip((encoder, decoder), sources)
    ]
    encoder_stack = _Resolver(ENCODER, settings, no_source="this is the encoder itself").stack(
        chains[0], settings.model_dim
    )
    decoder_stack = _decoder(chains[1], settings, encoder_stack, input_feeding)
    warnings = []
    if not any(layer_type(layer).attends for layer in decoder_stack.walk()):
        error = decoder_stack.layers[0].place.error(
            "no layer attends to the source, so that the output cannot depend on it"
        )
        warnings.append(str(error))
    return ModelSpec(encoder_stack, decoder_stack, settings, input_feeding, tuple(warnings))


def resolve_stack(
    text: str, side: str, settings: Settings, dialect: str, source: str, no_source: str
) -> StackSpec:
    """Parse and check a chain of layers that cannot attend to the source.

    This is for models that have layers in ADL beside other parts.

    Args:
        text: the chain of layers.
        side: ENCODER, or DECODER if no layer may see positions to its right.
        settings: the model's options.
        dialect: "paper" or "sockeye".
        source: the name of the text in error messages.
        no_source: why a layer cannot attend to the source, for the error message.
    Raises:
        TextError: the definition is wrong, or a layer attends to the source.
        UserError: the dialect is unknown.
    """
    chain = _parse(text, settings, dialect, source)
    return _Resolver(side, settings, no_source=no_source).stack(chain, settings.model_dim)


def _parse(text: str, settings: Settings, dialect: str, source: str) -> Chain:
    if dialect not in DIALECTS:
        raise UserError(
            f"There is no ADL dialect '{dialect}'{nearest(dialect, DIALECTS)}: take one of "
            f"{', '.join(DIALECTS)}."
        )
    return DIALECTS[dialect](parse(text, source), settings)


def _decoder(
    chain: Chain, settings: Settings, encoder: StackSpec, input_feeding: bool
) -> StackSpec:
    embedding = settings.model_dim
    if not input_feeding:
        return _Resolver(DECODER, settings, encoder).stack(chain, embedding)
    # The input is as wide as embedding and output together, whatever the output is.
    output, other = (
        _Resolver(DECODER, settings, encoder, checks=False).stack(chain, embedding + width)
        for width in (embedding, 2 * embedding)
    )
    if output.width != other.width:
        raise output.layers[-1].place.error(
            "with input feeding, the decoder's output is part of its input, so that its width "
            f"must not depend on the input: begin the decoder with 'linear({embedding})', for "
            "example"
        )
    channels = embedding + output.width
    note = (
        f"; with input feeding, the first layer has {channels} input channels: {embedding} of the "
        f"embedding and {output.width} of the previous output"
    )
    return _Resolver(DECODER, settings, encoder, note=note).stack(chain, channels)


class _Arguments(dict[str, Any]):
    """Given arguments by name; a default is computed when it is first needed."""

    spec: LayerSpec

    def __init__(self, declared: Sequence[Argument]):
        super().__init__()
        self.declared = {argument.name: argument for argument in declared}

    def __missing__(self, name: str) -> Any:
        self[name] = default_of(self.declared[name], self.spec)
        return self[name]


class _Resolver:
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
        self.count = 0

    def stack(self, chain: Chain, width: int) -> StackSpec:
        starts: list[int] = []
        layers = self.chain(chain, width, None, starts)
        return StackSpec(self.side, width, tuple(layers), tuple(starts or range(len(layers))))

    def chain(
        self, chain: Chain, width: int, index: int | None, starts: list[int] | None = None
    ) -> list[LayerSpec]:
        """The layers of a chain.

        Args:
            chain: the syntax tree.
            width: channels of the input.
            index: the number of the innermost repetition around it; None if there is none.
            starts: a list to append the index of the first layer of each copy to, or None.
        """
        layers: list[LayerSpec] = []
        for part in chain:
            if isinstance(part, Repeat):
                for number in range(1, part.count + 1):
                    if starts is not None:
                        starts.append(len(layers))
                    layers += self.chain(part.chain, width, number)
                    width = layers[-1].width
            else:
                layers += self.layer(part, width, index)
                width = layers[-1].width
        return layers

    def layer(self, call: Call, width: int, index: int | None) -> list[LayerSpec]:
        """The specification of a layer, or of all layers that a macro stands for."""
        entry = self.entry(call)
        items = {
            name: tuple(_replace_index(item, index) for item in given)
            for name, given in bind(call, entry.arguments).items()
        }
        arguments = _Arguments(entry.arguments)
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
        scalars = [a for a in entry.arguments if not isinstance(a.kind, SubChain)]
        chains: list[Chain] = []
        for argument in entry.arguments:
            values = [parse_item(call, argument, item) for item in items.get(argument.name, ())]
            if argument not in scalars:
                chains += values
            elif values:
                arguments[argument.name] = values[0]
        if isinstance(entry, Macro):
            return self.chain(entry.expand(spec, items), width, index)
        if entry.attends:
            spec = self.attend(spec)
        spec = replace(
            spec,
            arguments={argument.name: spec[argument.name] for argument in scalars},
            chains=tuple(tuple(self.chain(chain, width, index)) for chain in chains),
        )
        spec = replace(spec, width=entry.width(spec) if entry.width else width)
        self.count += 1
        if self.count > MAX_ADL_LAYERS:
            raise call.place.error(
                f"with repetitions and macros expanded, the {self.side} has more than "
                f"{MAX_ADL_LAYERS} layers"
            )
        if self.checks:
            self.check(entry, spec)
        return [spec]

    def entry(self, call: Call) -> LayerType | Macro:
        entry = entries().get(call.name)
        if entry is None:
            why = why_unsupported(call.name)
            raise call.place.error(why or unknown_layer(call.name, entries()))
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
    return replace(item, value=Number(item.value.sign * index, item.value.place))
