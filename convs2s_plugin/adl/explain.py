"""What a recipe costs and sees, worked out without building it.

Knows neither torch nor fairseq.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from .language.registry import POSITION, UNBOUNDED, Cost, Reach, layer_type
from .language.spec import ENCODER, LayerSpec, ModelSpec, StackSpec
from .language.writer import definition, label, runs


class Figures(NamedTuple):
    """Parameters, multiply-adds for one position, and the layers that do not know theirs."""

    parameters: int = 0
    multiply_adds: int = 0
    unknown: tuple[str, ...] = ()

    def plus(self, other: "Figures") -> "Figures":
        unknown = tuple(sorted({*self.unknown, *other.unknown}))
        return Figures(
            self.parameters + other.parameters, self.multiply_adds + other.multiply_adds, unknown
        )


def figures(layers: Iterable[LayerSpec], length: int) -> Figures:
    """The sums over some layers, those inside them included.

    Args:
        layers: layers of a recipe.
        length: words of source and of target, for attention.
    """
    total = Figures()
    for layer in layers:
        for part in layer.walk():
            total = total.plus(_own(part, length))
    return total


def _own(layer: LayerSpec, length: int) -> Figures:
    declared = layer_type(layer)
    known = declared.parameters is not None and declared.cost is not None
    parameters = declared.parameters(layer) if declared.parameters else 0
    cost = declared.cost(layer) if declared.cost else Cost()
    # Source and target are equally long, so that each position bears the cost of one source word.
    multiply_adds = cost.position + cost.pair * length + cost.source
    return Figures(parameters, multiply_adds, () if known else (layer.name,))


def reach(layers: Iterable[LayerSpec]) -> Reach:
    """How far the output of a chain sees of its input."""
    left = right = 0.0
    for layer in layers:
        own = layer_type(layer).reach_of(layer)
        inner = [reach(chain) for chain in layer.chains] or [POSITION]
        left += own.left + max(chain.left for chain in inner)
        right += own.right + max(chain.right for chain in inner)
    return Reach(left, right)


def sequential(recipe: ModelSpec) -> list[str]:
    """What computes one position after the other in training: names of layers, or the feeding."""
    layers = [*recipe.encoder.walk(), *recipe.decoder.walk()]
    names = sorted({layer.name for layer in layers if not layer_type(layer).parallel})
    return [*names, *(["input feeding"] if recipe.input_feeding else [])]


def seen(recipe: ModelSpec, side: StackSpec) -> Reach:
    """How far an output of a side sees."""
    found = reach(side.layers)
    if recipe.input_feeding and side is recipe.decoder:
        return Reach(UNBOUNDED, found.right)
    return found


def as_dict(recipe: ModelSpec, words: int, length: int) -> dict[str, Any]:
    """Everything about a recipe as plain data, for JSON.

    Args:
        recipe: a resolved model.
        words: types of each side's vocabulary.
        length: words of source and of target that multiply-adds are counted for.
    """
    total = figures([*recipe.encoder.layers, *recipe.decoder.layers], length)
    return {
        "encoder": _side_dict(recipe, recipe.encoder, length),
        "decoder": _side_dict(recipe, recipe.decoder, length),
        "input_feeding": recipe.input_feeding,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "length": length,
        "words": words,
        "parameters_of_embedding": words * recipe.settings.model_dim,
        "parameters_of_output": words * recipe.decoder.width,
        "not_counted": list(total.unknown),
        "parallel_over_time": not sequential(recipe),
        "sequential": sequential(recipe),
        "warnings": list(recipe.warnings),
    }


def _side_dict(recipe: ModelSpec, side: StackSpec, length: int) -> dict[str, Any]:
    total = figures(side.layers, length)
    left, right = (None if far == UNBOUNDED else int(far) for far in seen(recipe, side))
    return {
        "definition": definition(side),
        "input_width": side.input_width,
        "width": side.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "receptive_field": {"left": left, "right": right},
        "blocks": [
            {"number": number, "width": side.block_width(number), "layers": side.block_end(number)}
            for number in range(side.blocks + 1)
        ],
        "layers": [_layer_dict(layer, length) for layer in side.layers],
    }


def _layer_dict(layer: LayerSpec, length: int) -> dict[str, Any]:
    total = figures([layer], length)
    where = layer.place.refuse("")
    return {
        "name": layer.name,
        "arguments": layer.arguments,
        "input_width": layer.input_width,
        "width": layer.width,
        "parameters": total.parameters,
        "multiply_adds": total.multiply_adds,
        "line": where.line,
        "column": where.column,
        "chains": [[_layer_dict(part, length) for part in chain] for chain in layer.chains],
    }


class _Row(NamedTuple):
    depth: int
    label: str
    shape: str
    figures: Figures


def as_text(recipe: ModelSpec, words: int, length: int) -> str:
    """The tree of a recipe as a table, and its totals in sentences; arguments as ``as_dict``."""
    rows: list[_Row] = []
    for side in (recipe.encoder, recipe.decoder):
        rows += _side_rows(side, length)
    total = figures([*recipe.encoder.layers, *recipe.decoder.layers], length)
    rows.append(_Row(0, "total, words left out", "", total))
    lines = _table(rows)
    lines.append("")
    lines.append(
        f"Multiply-adds are those of matrix products for one position, in sentences of {length} "
        "words."
    )
    if total.unknown:
        lines.append(f"Not counted, for their costs are not declared: {', '.join(total.unknown)}.")
    lines.append(_words(recipe, words))
    for side in (recipe.encoder, recipe.decoder):
        lines.append(f"An output of the {side.side} sees {_seen(recipe, side)}.")
    why = sequential(recipe)
    lines.append(
        f"Training is not parallel over time: {', '.join(why)}."
        if why
        else "Training is parallel over time."
    )
    return "\n".join([*lines, *(f"Warning: {warning}" for warning in recipe.warnings)])


def _words(recipe: ModelSpec, words: int) -> str:
    dim, out = recipe.settings.model_dim, recipe.decoder.width
    text = f"A table of {words:,} words has {words:,} x {dim} = {words * dim:,} parameters"
    if out == dim:
        return f"{text}: one for source, target and output, or up to three."
    return f"{text}, for source and target; the output's has {words:,} x {out} = {words * out:,}."


def _seen(recipe: ModelSpec, side: StackSpec) -> str:
    left, right = seen(recipe, side)
    if left == UNBOUNDED:
        if side.side == ENCODER and right == UNBOUNDED:
            return "the whole sentence"
        later = f" and {right:.0f} later" if right else ""
        return f"all earlier positions{later}"
    if left == right == 0:
        return "its own position only"
    later = f" and {right:.0f} to its right" if side.side == ENCODER else ""
    return f"{left + right + 1:.0f} positions: its own, {left:.0f} to its left{later}"


def _side_rows(side: StackSpec, length: int) -> list[_Row]:
    positions = "S" if side.side == ENCODER else "T"

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
        return [side.layers[index] for index in indices]

    rows = [_Row(0, side.side, f"{positions} x {side.width}", figures(side.layers, length))]
    rows += rows_of(side.layers[: side.starts[0]], 1)
    for run in runs(side):
        if run.count == 1:
            rows += rows_of(at(run.block), 1)
        else:
            block = figures(at(run.block * run.count), length)
            rows.append(_Row(1, f"{run.count} times", "", block))
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
