"""ModelSpec -> text: the shortest plain definition that gives the same recipe again.

Knows neither torch nor fairseq.
"""

from typing import NamedTuple

from .arguments import SubChain, default_of
from .registry import layer_type
from .spec import LayerSpec, StackSpec


class Run(NamedTuple):
    """Successive blocks of one text: ``count`` times ``block``, then what belongs to the last."""

    count: int
    block: list[int]
    rest: list[int]


def definition(side: StackSpec) -> str:
    """The text of an encoder or decoder, abbreviations and defaults left out.

    Read again with the same settings (and the same encoder), it gives the same side, unless it
    has become longer than what may be read.
    """
    texts = [layer_text(layer) for layer in side.layers]
    found = runs(side)
    if side.starts == tuple(range(len(texts))) and (len(found) > 1 or len(texts) == 1):
        return " -> ".join(texts)
    parts = texts[: side.starts[0]]
    for run in found:
        block = " -> ".join(texts[index] for index in run.block)
        parts.append(f"repeat({run.count}, {block})")
        parts += [texts[index] for index in run.rest]
    return " -> ".join(parts)


def runs(side: StackSpec) -> list[Run]:
    """The blocks of a side, equal neighbours together; numbers are indices of layers."""
    texts = [layer_text(layer) for layer in side.layers]
    ends = (*side.starts[1:], len(texts))
    blocks = [list(range(start, end)) for start, end in zip(side.starts, ends)]
    found: list[Run] = []
    while blocks:
        first = blocks.pop(0)
        count, rest = 1, []
        text = [texts[index] for index in first]
        while blocks and not rest and [texts[i] for i in blocks[0][: len(first)]] == text:
            rest = blocks.pop(0)[len(first) :]
            count += 1
        found.append(Run(count, first, rest))
    return found


def layer_text(layer: LayerSpec) -> str:
    """The text of one layer with what it contains."""
    return _text(layer, [" -> ".join(map(layer_text, chain)) for chain in layer.chains])


def label(layer: LayerSpec) -> str:
    """The text of one layer without the chains in it."""
    return _text(layer, [])


def _text(layer: LayerSpec, chains: list[str]) -> str:
    items: list[str] = []
    for number, argument in enumerate(layer_type(layer).arguments):
        if isinstance(argument.kind, SubChain):
            given = chains if argument.kind.many else chains[:1]
            items += [f"{argument.name}={chain}" if number else chain for chain in given]
            chains = chains[len(given) :]
        elif layer[argument.name] != default_of(argument, layer):
            items.append(f"{argument.name}={argument.kind.write(layer[argument.name])}")
    return f"{layer.name}({', '.join(items)})" if items else layer.name
