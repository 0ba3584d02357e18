"""Specification -> text: a short definition that resolves to the same specification.

Needs neither torch nor fairseq.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .arguments import LetName, SubChain, default_of, write_value
from .registry import layer_type
from .spec import LayerSpec, StackSpec


class Run(NamedTuple):
    """Consecutive blocks that repeat: ``copies`` in all, of the first of ``blocks``, the second
    and so on, then of the first again; ``rest`` follows the last one. Numbers are those of layers.
    """

    copies: int
    blocks: list[list[int]]
    rest: list[int]


def definition(stack: StackSpec) -> str:
    """The text of an encoder or decoder, without macros and without defaults.

    Names remain where weights are shared. Resolving it with the same settings (and the same
    encoder) gives the same stack, unless it has become longer than the parser allows.
    """
    lets = [f"let {name} = {chain}; " for name, chain in _shared(stack.layers).items()]
    return "".join(lets) + " -> ".join(_parts(stack))


def _parts(stack: StackSpec) -> list[str]:
    texts = [layer_text(layer) for layer in stack.layers]
    found = runs(stack)
    if stack.starts == tuple(range(len(texts))) and (len(found) > 1 or len(texts) == 1):
        return texts
    parts = texts[: stack.starts[0]]
    for run in found:
        chains = [" -> ".join(texts[index] for index in block) for block in run.blocks]
        name = "repeat" if len(chains) == 1 else "cycle"
        parts.append(f"{name}({run.copies}, {', '.join(chains)})")
        parts += [texts[index] for index in run.rest]
    return parts


def _shared(layers: Iterable[LayerSpec]) -> dict[str, str]:
    """The chains with shared weights, each after those that it contains: name -> text."""
    found: dict[str, str] = {}
    for layer in layers:
        if layer.owns_weights:
            for chain in layer.chains:
                found.update(_shared(chain))
            if layer.name == "share":
                found[layer["name"]] = " -> ".join(map(layer_text, layer.chains[0]))
    return found


def runs(stack: StackSpec) -> list[Run]:
    """The blocks of a stack, with repetitions joined."""
    texts = [layer_text(layer) for layer in stack.layers]
    ends = (*stack.starts[1:], len(texts))
    blocks = [list(range(start, end)) for start, end in zip(stack.starts, ends)]
    found: list[Run] = []
    while blocks:
        period, count = repetition([tuple(texts[index] for index in block) for block in blocks])
        # Layers that follow the last copy belong to its block.
        rest = blocks[count - 1][len(blocks[(count - 1) % period]) :]
        found.append(Run(count, blocks[:period], rest))
        blocks = blocks[count:]
    return found


def repetition(items: Sequence[tuple[str, ...]]) -> tuple[int, int]:
    """The period of the beginning of a list, and how many items repeat with it.

    It is the period with which most items repeat, at least twice each; (1, 1) if there is none.
    The last of them may be longer.
    """
    best, size = (1, 1), len(items)
    for period in range(1, size // 2 + 1):
        count = period
        while count < size and items[count] == items[count - period]:
            count += 1
        if count < 2 * period - 1:
            continue
        if count < size and items[count][: len(before := items[count - period])] == before:
            count += 1
        if count >= 2 * period and count > best[1]:
            best = (period, count)
        if count == size:
            break
    return best


def layer_text(spec: LayerSpec) -> str:
    """The text of one layer, with the chains inside it."""
    return _text(spec, [" -> ".join(map(layer_text, chain)) for chain in spec.chains])


def label(spec: LayerSpec) -> str:
    """The text of one layer, without the chains inside it."""
    return _text(spec, [])


def _text(spec: LayerSpec, chains: list[str]) -> str:
    items: list[str] = []
    for number, argument in enumerate(layer_type(spec).arguments):
        if isinstance(argument.kind, SubChain):
            given = chains if argument.kind.many else chains[:1]
            items += [f"{argument.name}={chain}" if number else chain for chain in given]
            chains = chains[len(given) :]
        elif isinstance(argument.kind, LetName):
            items.append(spec[argument.name])
        elif spec[argument.name] != default_of(argument, spec):
            items.append(f"{argument.name}={write_value(spec[argument.name])}")
    return f"{spec.name}({', '.join(items)})" if items else spec.name
