"""Syntax trees -> model specification, with every check that is possible before building.

Needs neither torch nor fairseq.
"""

from collections.abc import Callable

from ....common.errors import UserError, nearest
from .parser import parse
from .registry import layer_type
from .resolver import Resolver
from .sockeye import translate
from .spec import DECODER, ENCODER, ModelSpec, Settings, StackSpec
from .tree import Definition

DIALECTS: dict[str, Callable[[Definition, Settings], Definition]] = {
    "paper": lambda definition, settings: definition,
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
        TextError: if the definition is wrong; the error shows the place.
        UserError: if the dialect is unknown.
    """
    settings = settings or Settings()
    definitions = [
        _parse(text, settings, dialect, source) for text, source in zip((encoder, decoder), sources)
    ]
    encoder_stack = Resolver(ENCODER, settings, no_source="this is the encoder itself").stack(
        definitions[0], settings.model_dim
    )
    decoder_stack = _decoder(definitions[1], settings, encoder_stack, input_feeding)
    warnings = []
    if not any(layer_type(layer).attends for layer in decoder_stack.walk()):
        error = decoder_stack.layers[0].place.error(
            "no layer attends to the source, so the output cannot depend on it"
        )
        warnings.append(str(error))
    return ModelSpec(encoder_stack, decoder_stack, settings, input_feeding, tuple(warnings))


def resolve_stack(
    text: str, side: str, settings: Settings, dialect: str, source: str, no_source: str
) -> StackSpec:
    """Parse and check a chain of layers that cannot attend to the source.

    This is for models that have layers in ADL among other parts.

    Args:
        text: the chain of layers.
        side: ENCODER, or DECODER if no layer may see positions to its right.
        settings: the model's options.
        dialect: "paper" or "sockeye".
        source: the name of the text in error messages.
        no_source: why a layer cannot attend to the source, for the error message.
    Raises:
        TextError: if the definition is wrong, or a layer attends to the source.
        UserError: if the dialect is unknown.
    """
    definition = _parse(text, settings, dialect, source)
    return Resolver(side, settings, no_source=no_source).stack(definition, settings.model_dim)


def _parse(text: str, settings: Settings, dialect: str, source: str) -> Definition:
    if dialect not in DIALECTS:
        raise UserError(
            f"There is no ADL dialect '{dialect}'{nearest(dialect, DIALECTS)}: choose one of "
            f"{', '.join(DIALECTS)}."
        )
    return DIALECTS[dialect](parse(text, source), settings)


def _decoder(
    definition: Definition, settings: Settings, encoder: StackSpec, input_feeding: bool
) -> StackSpec:
    embedding = settings.model_dim
    if not input_feeding:
        return Resolver(DECODER, settings, encoder).stack(definition, embedding)
    # The input is as wide as embedding and output together, whatever the output is.
    output, other = (
        Resolver(DECODER, settings, encoder, checks=False).stack(definition, embedding + width)
        for width in (embedding, 2 * embedding)
    )
    if output.width != other.width:
        raise output.layers[-1].place.error(
            "with input feeding, the decoder's output is part of its input, so its width must not "
            f"depend on the input: begin the decoder with 'linear({embedding})', for "
            "example"
        )
    channels = embedding + output.width
    note = (
        f"; with input feeding, the first layer has {channels} input channels: {embedding} of the "
        f"embedding and {output.width} of the previous output"
    )
    return Resolver(DECODER, settings, encoder, note=note).stack(definition, channels)
