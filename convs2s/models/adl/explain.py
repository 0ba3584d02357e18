"""A description of a resolved model: shapes, parameters, costs and receptive fields."""

from typing import Any

from .figures import figures, sequential_parts, stack_receptive_field
from .language.registry import UNBOUNDED, Reach, receptive_field
from .language.spec import LayerSpec, ModelSpec, StackSpec
from .language.writer import definition
from .outline import outline


def as_dict(model_spec: ModelSpec, vocabulary_size: int, length: int) -> dict[str, Any]:
    """Describe a model as plain data, for JSON.

    Args:
        model_spec: the resolved model.
        vocabulary_size: V of source and target.
        length: tokens of source and target for which multiply-adds are counted.
    """
    total = figures([*model_spec.encoder.layers, *model_spec.decoder.layers], length)
    return {
        "encoder": _stack_dict(model_spec, model_spec.encoder, length),
        "decoder": _stack_dict(model_spec, model_spec.decoder, length),
        "input_feeding": model_spec.input_feeding,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "length": length,
        "words": vocabulary_size,
        "parameters_of_embedding": vocabulary_size * model_spec.settings.model_dim,
        "parameters_of_output": vocabulary_size * model_spec.decoder.width,
        "not_counted": sorted(total.not_built | total.no_cost),
        "parallel_over_time": not sequential_parts(model_spec),
        "sequential": sequential_parts(model_spec),
        "warnings": list(model_spec.warnings),
    }


def _stack_dict(model_spec: ModelSpec, stack: StackSpec, length: int) -> dict[str, Any]:
    total = figures(stack.layers, length)
    return {
        "definition": definition(stack),
        "input_width": stack.input_width,
        "width": stack.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "receptive_field": _field_dict(stack_receptive_field(model_spec, stack)),
        "blocks": [
            {
                "number": number,
                "width": stack.block_width(number),
                "layers": stack.block_end(number),
            }
            for number in range(stack.blocks + 1)
        ],
        "layers": [_layer_dict(layer, length) for layer in stack.layers],
    }


def _field_dict(reach: Reach) -> dict[str, int | None]:
    left, right = (None if far == UNBOUNDED else int(far) for far in reach)
    return {"left": left, "right": right}


def _layer_dict(
    spec: LayerSpec, length: int, own_weights: bool = True, is_reversed: bool = False
) -> dict[str, Any]:
    total = figures([spec], length, own_weights)
    own = own_weights and spec.owns_weights
    where = spec.place.error("")
    reach = receptive_field([spec])
    # The second chain of a bi reads from right to left.
    directions = [is_reversed != (spec.name == "bi" and n == 1) for n in range(len(spec.chains))]
    return {
        "name": spec.name,
        "arguments": spec.arguments,
        "input_width": spec.input_width,
        "width": spec.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "receptive_field": _field_dict(reach.mirrored if is_reversed else reach),
        "line": where.line,
        "column": where.column,
        "lets": [use.name for use in spec.lets],
        "chains": [
            [_layer_dict(part, length, own, direction) for part in chain]
            for chain, direction in zip(spec.chains, directions)
        ],
    }


def as_text(model_spec: ModelSpec, vocabulary_size: int, length: int) -> str:
    """Describe a model as a table of its layers and a few sentences; arguments as `as_dict`."""
    found = outline(model_spec, vocabulary_size, length)
    cells = [("", "output", "receptive field", "parameters", "multiply-adds")]
    for side in (found.encoder, found.decoder, found.total):
        for depth, part in side.walk():
            numbers = part.figures
            cells.append(
                (
                    "  " * depth + part.label,
                    part.output,
                    part.field,
                    f"{numbers.parameters:,}" if numbers.parameters else "",
                    f"{numbers.multiply_adds:,}" if numbers.multiply_adds else "",
                )
            )
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "  ".join(
            cell.rjust(width) if column > 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in cells
    ]
    return "\n".join([*lines, "", *found.sentences])
