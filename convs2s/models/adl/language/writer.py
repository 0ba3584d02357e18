"""Specification -> text: a short definition that resolves to the same specification.

Needs neither torch nor fairseq.
"""

from typing import NamedTuple

from .arguments import SubChain, default_of, write_value
from .registry import layer_type
from .spec import LayerSpec, StackSpec


class Run(NamedTuple):
    """Consecutive equal blocks: ``times`` copies of ``block``, then ``rest`` after the last."""

    times: int
    block: list[int]
    rest: list[int]


def definition(stack: StackSpec) -> str:
    """The text of an encoder or decoder, without macros and without defaults.

    Resolving it with the same settings (and the same encoder) gives the same stack, unless it has
    become longer than the parser allows.
    """
    texts = [layer_text(layer) for layer in stack.layers]
    found = runs(stack)
    if stack.starts == tuple(range(len(texts))) and (len(found) > 1 or len(texts) == 1):
        return " -> ".join(texts)
    parts = texts[: stack.starts[0]]
    for run in found:
        block = " -> ".join(texts[index] for index in run.block)
        parts.append(f"repeat({run.times}, {block})")
        parts += [texts[index] for index in run.rest]
    return " -> ".join(parts)


def runs(stack: StackSpec) -> list[Run]:
    """The blocks of a stack, with equal neighbors joined; numbers are indices of layers."""
    texts = [layer_text(layer) for layer in stack.layers]
    ends = (*stack.starts[1:], len(texts))
    blocks = [list(range(start, end)) for start, end in zip(stack.starts, ends)]
    found: list[Run] = []
    while blocks:
        first = blocks.pop(0)
        times = 1
        rest: list[int] = []
        text = [texts[index] for index in first]
        while blocks and not rest and [texts[i] for i in blocks[0][: len(first)]] == text:
            rest = blocks.pop(0)[len(first) :]
            times += 1
        found.append(Run(times, first, rest))
    return found


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
        elif spec[argument.name] != default_of(argument, spec):
            items.append(f"{argument.name}={write_value(spec[argument.name])}")
    return f"{spec.name}({', '.join(items)})" if items else spec.name
