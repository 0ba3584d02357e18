"""Encoder and decoding step of any network as two modules without hidden state, for tracing.

The state between steps is a list of tensors, arguments and results of the step. What it consists of
depends on the layers: the first trace of a network finds out.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from ...models.interface import Network, resolve_attention
from ...nn.state import Backpointers, State
from .layer_watch import LayerWatch

# Sizes of the examples that are traced. Each size differs from the others.
BATCH, BEAM, SOURCE_LENGTH, TARGET_LENGTH = 3, 4, 5, 2
# More sentences than anybody translates at once.
MAX_BATCH = 2**15


class Place(NamedTuple):
    """The place of a tensor in a ``State``.

    Attributes:
        path: names of children, from the root.
        kind: an attribute of the child: "rows" or "sentences"; "cache" for its key-value cache.
        name: of the tensor.
    """

    path: tuple[Hashable, ...]
    kind: str
    name: str


def tensors_of(state: State, path: tuple[Hashable, ...] = ()) -> Iterator[tuple[Place, Tensor]]:
    """All tensors of an incremental state, of hypotheses that each have a sentence of their own."""
    for kind in ("rows", "sentences"):
        for name, tensor in getattr(state, kind).items():
            yield Place(path, kind, name), tensor
    if (cache := state.filled_cache()) is not None:
        for name, tensor in zip(("keys", "values"), cache.contents()):
            yield Place(path, "cache", name), tensor
    for name, child in state.children.items():
        yield from tensors_of(child, (*path, name))


def state_of(tensors: dict[Place, Tensor]) -> State:
    """The state that has these tensors; its layers may write into them."""
    root = State()
    for (path, kind, name), tensor in tensors.items():
        state = root
        for step in path:
            state = state.child(step)
        if kind == "cache":
            cache = state.kv_cache()
            setattr(cache, name, tensor)
            cache.length = tensor.size(2)
        else:
            getattr(state, kind)[name] = tensor.clone() if kind == "rows" else tensor
    return root


class First(NamedTuple):
    """What the encoder and the first step of a search compute.

    Attributes:
        predictions: logits B x V, or without the output layer, features B x C.
        attention: B x S, averaged over layers and heads; None if there is none, and without the
            output layer.
        source: tensors with one row for each sentence, which no step changes.
        state: tensors with one row for each hypothesis.
    """

    predictions: Tensor
    attention: Tensor | None
    source: list[Tensor]
    state: list[Tensor]


class Next(NamedTuple):
    """What a later step computes; see ``First``."""

    predictions: Tensor
    attention: Tensor | None
    state: list[Tensor]


@dataclass
class Layout:
    """What the state between steps consists of.

    Attributes:
        encoded: names of the tensors in the encoder's dictionary.
        constants: its other entries.
        shared: places of the state's tensors that no step changes.
        places: places of the others.
        caches: whether there are key-value caches.
    """

    encoded: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    shared: list[Place] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    caches: bool = False


class FirstStep(nn.Module):
    """The encoder, and the first step of the decoder.

    Args:
        network: ready for generation.
        eos: the end of the sentence, with which a translation starts.
        output: whether the output layer takes part.
        steps: number of decoder steps; it reads as many ends of sentences (1).

    Attributes:
        layout: what the state consists of, after a trace.
    """

    def __init__(self, network: Network, eos: int, output: bool, steps: int = 1):
        super().__init__()
        self.network, self.eos, self.output, self.steps = network, eos, output, steps
        self.layout = Layout()

    def forward(self, src_tokens: Tensor) -> First:
        """Encode a batch of sentences, and begin to translate them.

        Args:
            src_tokens: B x S token indices, padded on either side or on both.
        """
        encoded, state = self.network.encode(src_tokens), State()
        for length in range(1, self.steps + 1):
            prefix = src_tokens.new_full((src_tokens.size(0), length), self.eos)
            predictions = _step(self.network, prefix, encoded, state, self.output)
        tensors, layout = dict(tensors_of(state)), self.layout
        layout.encoded = [name for name, value in encoded.items() if isinstance(value, Tensor)]
        others = encoded.keys() - set(layout.encoded)
        layout.constants = {name: encoded[name] for name in others}
        layout.shared = [place for place in tensors if place.kind == "sentences"]
        layout.places = [place for place in tensors if place.kind != "sentences"]
        layout.caches = state.backpointers is not None
        source = [encoded[name] for name in layout.encoded]
        source += [tensors[place] for place in layout.shared]
        return First(*predictions, source, [tensors[place] for place in layout.places])


class LaterStep(nn.Module):
    """A step after the first.

    Args:
        network: ready for generation.
        output: whether the output layer takes part.
        layout: what its state consists of.
    """

    def __init__(self, network: Network, output: bool, layout: Layout):
        super().__init__()
        self.network, self.output, self.layout = network, output, layout

    def forward(self, prefix: Tensor, source: list[Tensor], state: list[Tensor]) -> Next:
        """Predict the next token of each hypothesis.

        Args:
            prefix: R x T tokens, the end of the sentence first; none of them is padding. R is a
                multiple of B: the hypotheses of a beam are consecutive and share a sentence.
            source: ``First.source``.
            state: the state after T - 1 steps.
        """
        layout, of_search = self.layout, source[len(self.layout.encoded) :]
        tensors = dict(zip((*layout.shared, *layout.places), (*of_search, *state)))
        before = state_of(tensors)
        before.length = prefix.size(1) - 1
        if layout.caches:
            before.backpointers = Backpointers(1)
            before.backpointers.writers = torch.zeros_like(prefix[:, :-1])
        encoded = {**layout.constants, **dict(zip(layout.encoded, source))}
        predictions = _step(self.network, prefix, encoded, before, self.output)
        after = dict(tensors_of(before))
        if after.keys() != tensors.keys():
            raise ValueError("after this step, the state has other tensors than before")
        return Next(*predictions, [after[place] for place in layout.places])


def _step(
    network: Network, prefix: Tensor, encoded: dict[str, Any], state: State, output: bool
) -> tuple[Tensor, Tensor | None]:
    """Logits R x V and attention R x S of the next tokens; or features R x C alone."""
    features, found = network.decoder.run(prefix, encoded, state, need_weights=output)
    if not output:
        return features[:, -1], None
    logits = network.logits(features[:, -1:])
    attention = resolve_attention(found, logits)
    return logits[:, -1], None if attention is None else attention[:, -1]


class Graphs(NamedTuple):
    """Both graphs of a network.

    Attributes:
        first: that of ``FirstStep``.
        later: that of ``LaterStep``.
        sources: how many tensors the source has.
        states: how many the state has.
        attends: whether there is attention.
    """

    first: ExportedProgram
    later: ExportedProgram
    sources: int
    states: int
    attends: bool


@torch.no_grad()
def trace(network: Network, eos: int, output: bool = True) -> Graphs:
    """Trace a network, for any numbers of sentences and tokens.

    Args:
        network: ready for generation, on the CPU.
        eos: the end of a sentence.
        output: whether the output layer takes part (True).
    Raises:
        UserError: if a layer cannot be traced; it names the layer.
    """
    batch = Dim("batch", max=MAX_BATCH)
    # A trace is of several sentences with several rows each; ONNX computes with any numbers.
    rows = Dim("rows", min=4, max=MAX_BATCH)
    length = Dim("source_length", max=network.max_source_length)
    past = Dim("past", max=network.max_target_length - 1)
    of_source = ({0: batch, 1: length},)
    first = FirstStep(network, eos, output)
    tokens = torch.full((BATCH, SOURCE_LENGTH), eos)
    with LayerWatch(network) as watch:
        first_graph = watch.trace(first, (tokens,), of_source)
        longer = watch.trace(FirstStep(network, eos, output, TARGET_LENGTH), (tokens,), of_source)
        found, grown = (graph.module()(tokens) for graph in (first_graph, longer))
        other = first_graph.module()(torch.full((BATCH + 1, SOURCE_LENGTH + 1), eos))

        def dynamic(first: Any, here: Tensor, later: Tensor, there: Tensor) -> dict[int, Any]:
            sizes = enumerate(zip(here.shape, later.shape, there.shape))
            changing = {dim: each for dim, each in sizes if len(set(each)) > 1}
            return {
                dim: past if size != grown else first if dim == 0 else length
                for dim, (size, grown, _) in changing.items()
            }

        shapes = (
            {0: rows, 1: past + 1},
            [dynamic(batch, *each) for each in zip(found.source, found.source, other.source)],
            [dynamic(rows, *each) for each in zip(found.state, grown.state, other.state)],
        )
        prefix = torch.full((BATCH * BEAM, TARGET_LENGTH + 1), eos)
        state = [each.repeat_interleave(BEAM, dim=0) for each in grown.state]
        step, inputs = LaterStep(network, output, first.layout), (prefix, grown.source, state)
        later = watch.trace(step, inputs, shapes)
    attends = found.attention is not None
    return Graphs(first_graph, later, len(found.source), len(found.state), attends)
