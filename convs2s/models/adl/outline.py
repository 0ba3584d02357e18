"""The outline of a resolved model, which ``convs2s adl explain`` prints and ``draw`` draws."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from .figures import Figures, figures, receptive_field, sequential_parts, stack_receptive_field
from .language.registry import POSITION, UNBOUNDED, Reach
from .language.spec import ENCODER, LayerSpec, ModelSpec, StackSpec
from .language.writer import label, runs


@dataclass(frozen=True, eq=False)
class Part:
    """A layer, or several together: a stack, equal blocks, or one of several chains of a layer.

    Attributes:
        label: the text of the layer, or what the part is.
        figures: sums over the layers in it.
        output: shape of its output; empty for equal blocks and for chains.
        reach: its receptive field; None for all layers of a model together.
        parts: what it consists of, from the input on; of equal blocks, only the first.
        layer: the specification of the layer, or None.
        times: number of equal blocks.
        blocks: numbers of the blocks whose output is that of the part, or of a part in it.
    """

    label: str
    figures: Figures
    output: str = ""
    reach: Reach | None = None
    parts: tuple["Part", ...] = ()
    layer: LayerSpec | None = None
    times: int = 1
    blocks: tuple[int, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Part"]]:
        """This part and all parts inside it, each after its depth."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    @property
    def field(self) -> str:
        """The receptive field, such as "-1 to +1"; empty if it is a single position."""
        left, right = self.reach or POSITION
        if left == right:
            return "all" if left == UNBOUNDED else f"-{left:.0f} to +{right:.0f}" if left else ""
        earlier = "all earlier" if left == UNBOUNDED else f"{0 - left:.0f}"
        later = "all later" if right == UNBOUNDED else f"+{right:.0f}" if right else "0"
        return earlier if left == UNBOUNDED and not right else f"{earlier} to {later}"


class Outline(NamedTuple):
    """A whole model: its stacks, all layers together, and sentences about them."""

    encoder: Part
    decoder: Part
    total: Part
    sentences: list[str]


def outline(model_spec: ModelSpec, vocabulary_size: int, length: int) -> Outline:
    """The outline of a model.

    Args:
        model_spec: the resolved model.
        vocabulary_size: V of source and target.
        length: tokens of source and target for which multiply-adds are counted.
    """
    encoder, decoder = (
        _stack(model_spec, stack, length) for stack in (model_spec.encoder, model_spec.decoder)
    )
    total = encoder.figures.plus(decoder.figures)
    sentences = [
        "Multiply-adds are those of matrix multiplications for one position, in sentences of "
        f"{length} tokens."
    ]
    if total.no_cost:
        names = ", ".join(sorted(total.no_cost))
        sentences.append(f"Without the multiply-adds of {names}: no cost is declared.")
    if total.not_built:
        names = ", ".join(sorted(total.not_built))
        sentences.append(
            f"Without the parameters of {names}: PyTorch cannot build the layer "
            "without data (on the meta device)."
        )
    sentences.append(_embeddings(model_spec, vocabulary_size))
    for stack in (model_spec.encoder, model_spec.decoder):
        sentences.append(f"The receptive field of the {stack.side} is {_field(model_spec, stack)}.")
    sequential = sequential_parts(model_spec)
    sentences.append(
        f"Training is not parallel over time: {', '.join(sequential)}."
        if sequential
        else "Training is parallel over time."
    )
    sentences += [f"Warning: {warning}" for warning in model_spec.warnings]
    return Outline(encoder, decoder, Part("all layers", total), sentences)


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


def _stack(model_spec: ModelSpec, stack: StackSpec, length: int) -> Part:
    positions = "S" if stack.side == ENCODER else "T"

    def part_of(layer: LayerSpec, blocks: tuple[int, ...] = ()) -> Part:
        chains = [tuple(map(part_of, chain)) for chain in layer.chains]
        if len(chains) == 1:
            parts = chains[0]
        else:
            parts = tuple(
                Part(f"chain {number}", figures(chain, length), "", receptive_field(chain), inside)
                for number, (chain, inside) in enumerate(zip(layer.chains, chains), start=1)
            )
        return Part(
            label(layer),
            figures([layer], length),
            f"{positions} x {layer.width}",
            receptive_field([layer]),
            parts,
            layer,
            blocks=blocks,
        )

    def chain_of(indices: Iterable[int], *blocks: int) -> list[Part]:
        """Layers, the last of which has the output of some blocks."""
        *before, last = indices
        return [
            *(part_of(stack.layers[index]) for index in before),
            part_of(stack.layers[last], blocks),
        ]

    parts = chain_of(range(stack.starts[0]), 0) if stack.starts[0] else []
    block = 0
    for run in runs(stack):
        numbers = tuple(range(block + 1, block + run.times + 1))
        block += run.times
        of_run, of_rest = (numbers[:-1], numbers[-1:]) if run.rest else (numbers, ())
        if run.times == 1:
            parts += chain_of(run.block, *of_run)
        else:
            layers = [stack.layers[index] for index in run.block * run.times]
            parts.append(
                Part(
                    f"{run.times} times",
                    figures(layers, length),
                    "",
                    receptive_field(layers),
                    tuple(chain_of(run.block)),
                    times=run.times,
                    blocks=of_run,
                )
            )
        parts += chain_of(run.rest, *of_rest) if run.rest else []
    return Part(
        stack.side,
        figures(stack.layers, length),
        f"{positions} x {stack.width}",
        stack_receptive_field(model_spec, stack),
        tuple(parts),
    )
