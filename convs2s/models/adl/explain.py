"""A description of a resolved model: shapes, parameters, costs and receptive fields."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .figures import Figures, figures, sequential_parts, stack_receptive_field
from .language.registry import UNBOUNDED
from .language.spec import ENCODER, LayerSpec, ModelSpec, StackSpec
from .language.writer import definition, label, runs


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
    left, right = (
        None if far == UNBOUNDED else int(far) for far in stack_receptive_field(model_spec, stack)
    )
    return {
        "definition": definition(stack),
        "input_width": stack.input_width,
        "width": stack.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "receptive_field": {"left": left, "right": right},
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


def _layer_dict(spec: LayerSpec, length: int) -> dict[str, Any]:
    total = figures([spec], length)
    where = spec.place.error("")
    return {
        "name": spec.name,
        "arguments": spec.arguments,
        "input_width": spec.input_width,
        "width": spec.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "line": where.line,
        "column": where.column,
        "chains": [[_layer_dict(part, length) for part in chain] for chain in spec.chains],
    }


class _Row(NamedTuple):
    depth: int
    label: str
    shape: str
    figures: Figures


def as_text(model_spec: ModelSpec, vocabulary_size: int, length: int) -> str:
    """Describe a model as a table of its layers and a few sentences; arguments as `as_dict`."""
    rows: list[_Row] = []
    for stack in (model_spec.encoder, model_spec.decoder):
        rows += _stack_rows(stack, length)
    total = figures([*model_spec.encoder.layers, *model_spec.decoder.layers], length)
    rows.append(_Row(0, "all layers", "", total))
    lines = _table(rows)
    lines.append("")
    lines.append(
        "Multiply-adds are those of matrix multiplications for one position, in sentences of "
        f"{length} tokens."
    )
    if total.no_cost:
        lines.append(f"Without the multiply-adds of {_names(total.no_cost)}: no cost is declared.")
    if total.not_built:
        lines.append(
            f"Without the parameters of {_names(total.not_built)}: PyTorch cannot build the layer "
            "without data (on the meta device)."
        )
    lines.append(_embeddings(model_spec, vocabulary_size))
    for stack in (model_spec.encoder, model_spec.decoder):
        lines.append(f"The receptive field of the {stack.side} is {_field(model_spec, stack)}.")
    sequential = sequential_parts(model_spec)
    lines.append(
        f"Training is not parallel over time: {', '.join(sequential)}."
        if sequential
        else "Training is parallel over time."
    )
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in model_spec.warnings)])


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _embeddings(model_spec: ModelSpec, vocabulary_size: int) -> str:
    v, dim, out = vocabulary_size, model_spec.settings.model_dim, model_spec.decoder.width
    text = f"The embedding matrix of {v:,} tokens has {v:,} x {dim} = {v * dim:,} parameters"
    if out == dim:
        return f"{text}: one matrix for source, target and output together, or up to three."
    return f"{text}, for source and target each; the output matrix has {v:,} x {out} = {v * out:,}."


def _field(model_spec: ModelSpec, stack: StackSpec) -> str:
    left, right = stack_receptive_field(model_spec, stack)
    if left == UNBOUNDED:
        if stack.side == ENCODER and right == UNBOUNDED:
            return "the whole sentence"
        later = f" and {right:.0f} later" if right else ""
        return f"all earlier positions{later}"
    if left == right == 0:
        return "a single position"
    later = f" and {right:.0f} to its right" if stack.side == ENCODER else ""
    return f"{left + right + 1:.0f} positions: its own, {left:.0f} to its left{later}"


def _stack_rows(stack: StackSpec, length: int) -> list[_Row]:
    positions = "S" if stack.side == ENCODER else "T"

    def rows_of(layers: Iterable[LayerSpec], depth: int) -> list[_Row]:
        rows = []
        for layer in layers:
            shape = f"{positions} x {layer.width}"
            rows.append(_Row(depth, label(layer), shape, figures([layer], length)))
            for number, chain in enumerate(layer.chains, start=1):
                inner = depth + 1
                if len(layer.chains) > 1:
                    rows.append(_Row(inner, f"chain {number}", "", figures(chain, length)))
                    inner += 1
                rows += rows_of(chain, inner)
        return rows

    def at(indices: Iterable[int]) -> list[LayerSpec]:
        return [stack.layers[index] for index in indices]

    rows = [_Row(0, stack.side, f"{positions} x {stack.width}", figures(stack.layers, length))]
    rows += rows_of(stack.layers[: stack.starts[0]], 1)
    for run in runs(stack):
        if run.times == 1:
            rows += rows_of(at(run.block), 1)
        else:
            block = figures(at(run.block * run.times), length)
            rows.append(_Row(1, f"{run.times} times", "", block))
            rows += rows_of(at(run.block), 2)
        rows += rows_of(at(run.rest), 1)
    return rows


def _table(rows: list[_Row]) -> list[str]:
    cells = [("", "output", "parameters", "multiply-adds")]
    for row in rows:
        numbers = row.figures
        cells.append(
            (
                "  " * row.depth + row.label,
                row.shape,
                f"{numbers.parameters:,}" if numbers.parameters else "",
                f"{numbers.multiply_adds:,}" if numbers.multiply_adds else "",
            )
        )
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    return [
        f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip()
        for a, b, c, d in cells
    ]
