"""The outline of a resolved model, which ``convs2s adl explain`` prints and ``draw`` draws."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .figures import Figures, figures, sequential_parts, stack_receptive_field
from .language.registry import POSITION, UNBOUNDED, Reach, receptive_field
from .language.spec import ENCODER, LayerSpec, ModelSpec, StackSpec
from .language.writer import Run, label, runs


@dataclass(frozen=True, eq=False)
class Part:
    """A layer, or several together: a stack, equal blocks, a named chain, or one of several chains
    of a layer.

    Attributes:
        label: the text of the layer, the name of the chain, or what the part is.
        figures: sums over the layers in it; parameters of a ``share`` count at its first use.
        output: shape of its output; empty for equal blocks and for chains.
        reach: its receptive field; None for all layers of a model together.
        parts: its parts, starting at the input; for equal blocks, only the first.
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

    def reversed(self) -> "Part":
        """The same from right to left."""
        parts = tuple(part.reversed() for part in self.parts)
        return replace(self, reach=(self.reach or POSITION).mirrored, parts=parts)

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
        uses = Counter(layer["name"] for layer in stack.walk() if layer.name == "share")
        sentences += [
            f"The weights of '{name}' are used {count} times in the {stack.side}."
            for name, count in uses.items()
            if count > 1
        ]
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
    builder = _Builder(stack, length)
    return Part(
        stack.side,
        figures(stack.layers, length),
        f"{builder.positions} x {stack.width}",
        stack_receptive_field(model_spec, stack),
        tuple(builder.parts()),
    )


class _Builder:
    """Makes the parts of a stack."""

    def __init__(self, stack: StackSpec, length: int):
        self.stack, self.length = stack, length
        self.positions = "S" if stack.side == ENCODER else "T"

    def parts(self) -> list[Part]:
        """The parts of the stack, with equal blocks together."""
        before = self.stack.starts[0]
        parts = self.chain(self.stack.layers[:before], blocks=(0,)) if before else []
        block = 0
        for run in runs(self.stack):
            numbers = range(block + 1, block + run.copies + 1)
            parts += self.run(run, numbers)
            block += run.copies
        return parts

    def run(self, run: Run, numbers: range) -> list[Part]:
        """The parts of repeated blocks with these numbers."""
        sizes = [len(block) for block in run.blocks]
        period = len(sizes)
        times = run.copies // period
        # The output of the last copy is that of the layers after it.
        of_copies = numbers[:-1] if run.rest else numbers
        start = run.blocks[0][0]
        parts: list[Part] = []
        copies = range(run.copies)
        if times > 1:
            copies = copies[times * period :]
            layers = self.stack.layers[start : start + times * sum(sizes)]
            of_times = of_copies[: times * period]
            inner: list[Part] = []
            for number, block in enumerate(run.blocks):
                own = tuple(of_times[number::period]) if period > 1 else ()
                inner += self.chain([self.stack.layers[index] for index in block], blocks=own)
            parts.append(
                Part(
                    f"{times} times",
                    figures(layers, self.length),
                    "",
                    receptive_field(layers),
                    tuple(inner),
                    times=times,
                    blocks=tuple(of_times) if period == 1 else (),
                )
            )
            start += len(layers)
        for copy in copies:
            size = sizes[copy % period]
            own = tuple(of_copies[copy : copy + 1])
            parts += self.chain(self.stack.layers[start : start + size], blocks=own)
            start += size
        if run.rest:
            rest = [self.stack.layers[index] for index in run.rest]
            parts += self.chain(rest, blocks=tuple(numbers[-1:]))
        return parts

    def chain(
        self,
        layers: Sequence[LayerSpec],
        own_weights: bool = True,
        level: int = 0,
        blocks: tuple[int, ...] = (),
    ) -> list[Part]:
        """The parts of a chain.

        Args:
            layers: the layers.
            own_weights: whether to count their parameters (True).
            level: how many of the names that they were written with already have parts (0).
            blocks: numbers of the blocks whose output is that of the last layer (none).
        """
        parts: list[Part] = []
        while layers:
            level_of_name, size = _named(layers, level)
            group, layers = layers[:size], layers[size:]
            last = () if layers else blocks
            if level_of_name is None:
                parts.append(self.layer(group[0], own_weights, last))
                continue
            parts.append(
                Part(
                    group[0].lets[level_of_name].name,
                    figures(group, self.length, own_weights),
                    "",
                    receptive_field(group),
                    tuple(self.chain(group, own_weights, level_of_name + 1, last)),
                )
            )
        return parts

    def layer(self, layer: LayerSpec, own_weights: bool, blocks: tuple[int, ...] = ()) -> Part:
        """The part of a layer, with those of its chains."""
        own = own_weights and layer.owns_weights
        chains = [tuple(self.chain(chain, own)) for chain in layer.chains]
        if len(chains) == 1:
            parts = chains[0]
        else:
            labels = [f"chain {number}" for number in range(1, len(chains) + 1)]
            if layer.name == "bi":
                labels = ["from left to right", "from right to left"]
            parts = tuple(
                Part(
                    text,
                    figures(chain, self.length, own),
                    "",
                    receptive_field(chain),
                    inside,
                )
                for text, chain, inside in zip(labels, layer.chains, chains)
            )
            if layer.name == "bi":
                parts = (parts[0], parts[1].reversed())
        return Part(
            label(layer),
            figures([layer], self.length, own_weights),
            f"{self.positions} x {layer.width}",
            receptive_field([layer]),
            parts,
            layer,
            blocks=blocks,
        )


def _named(layers: Sequence[LayerSpec], level: int) -> tuple[int | None, int]:
    """How many layers at the beginning of a chain belong to one use of a name.

    Only names whose layers are all in the chain count, from a level on.

    Returns:
        The level of the name, and the number of layers; (None, 1) if there is none.
    """
    names = layers[0].lets
    for number in range(level, len(names)):
        use = names[number]
        size = 0
        while size < len(layers) and layers[size].lets[number : number + 1] == (use,):
            size += 1
        if size == use.layers:
            return number, size
    return None, 1
