"""The network that is verified: a small one with random weights, and random sentences."""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....common.errors import TextError, UserError
from ....common.limits import MAX_VERIFIED
from ....nn.padding import order_padding_last
from ....nn.recent_positions import RECENT
from ....nn.state import State
from ...interface import Vocabularies
from ..context import Source
from ..figures import stack_receptive_field
from ..language.registry import UNBOUNDED, layer_type
from ..language.spec import LayerSpec, ModelSpec
from ..language.writer import label
from ..layers.chains import LayerChain, build_layer
from ..network import AdlDecoder, AdlEncoder, AdlNetwork
from ..options import AdlOptions

SEED = 1
PAD, EOS, FIRST = 1, 2, 4
# Tokens of the longest sentence, and how many it has at most for a receptive field.
LENGTH, MAX_FOR_FIELDS = 9, 64
# The results of a pass whose deviations count; those of the layers show where one begins.
OUTPUTS = ("encoder", "decoder")

# What a pass computed: the name of an output, or the number of a layer -> N x C, at its tokens.
Trace = dict[str | int, Tensor]


class Layer(NamedTuple):
    """A layer of the network, at any depth, and its specification."""

    module: nn.Module
    spec: LayerSpec

    @property
    def text(self) -> str:
        """The layer and its place, for a message."""
        place: TextError = self.spec.place.error("")
        source = self.spec.place.source
        return f"'{label(self.spec)}' ({source}, line {place.line}, column {place.column})"


class LayerFault(Exception):
    """A layer does not return what it declares; the message says what it returns."""


class Subject:
    """A network in evaluation mode and double precision, and sentences for it.

    Args:
        options: the options of the network, with its definitions.
        spec: what they resolve to, with places for messages.
        words: the size of both vocabularies.
        length: tokens of the longest sentence; None for ``length_for``.
    Attributes:
        network: the network. At padding, its embeddings are random numbers, which must not matter.
        layers: its layers, each before those inside it.
        words: the size of both vocabularies.
        length: tokens of the longest sentence.
        sources, targets: tokens of the sentences; those of the target are already shifted.
    Raises:
        UserError: if a layer cannot be built.
    """

    def __init__(self, options: AdlOptions, spec: ModelSpec, words: int, length: int | None = None):
        self.spec, self.words = spec, words
        self.length = length or length_for(spec)
        torch.manual_seed(SEED)
        try:
            self.network = AdlNetwork(options, Vocabularies(words, words, PAD, EOS))
        except UserError:
            raise
        except Exception as error:
            raise UserError(_cannot_be_built(spec, error)) from error
        _randomize_constants_(self.network)
        self.network.double().eval()
        self.layers = list(layers_of(self.network, spec))
        self.calls: list[tuple[int, Tensor]] = []
        self._entered: list[int] = []
        for number, layer in enumerate(self.layers):
            self._watch(number, layer)
        for part in (self.network.encoder, self.network.decoder):
            part.embed.register_forward_hook(_fill_padding)
        some, most = max(1, self.length // 2), self.length
        self.sources, self.targets = (
            [torch.randint(FIRST, words, (size,)) for size in sizes]
            for sizes in ((most, some, min(3, most), 1), (some, most, 1, min(4, most)))
        )
        for target in self.targets:
            target[0] = EOS

    def _watch(self, number: int, layer: Layer) -> None:
        """Record the outputs of a layer, also in copies of the network."""

        def enter(module: nn.Module, inputs: Any) -> None:
            self._entered.append(number)

        def leave(module: nn.Module, inputs: Any, output: Any) -> None:
            _check_output(output, inputs[0], layer.spec.width)
            self._entered.pop()
            self.calls.append((number, output.detach()))

        # These are not methods, because copies of the network would have copies of this object.
        layer.module.register_forward_pre_hook(enter)
        layer.module.register_forward_hook(leave)

    def where_it_failed(self) -> str:
        """The layer that raised the last exception; empty if none did."""
        entered, self._entered = self._entered, []
        return self.layers[entered[-1]].text if entered else ""

    def precision(self, dtype: torch.dtype) -> AdlNetwork:
        """A copy of the network in another precision."""
        return copy.deepcopy(self.network).to(dtype)

    def reference(self, network: AdlNetwork | None = None) -> Trace:
        """What full passes compute from each sentence alone, one sentence after the other."""
        network = network or self.network
        pairs = zip(self.sources, self.targets)
        return joined([self.full(network, *map(_alone, pair)) for pair in pairs])

    def full(self, network: AdlNetwork, source: Tensor, target: Tensor) -> Trace:
        """What a full pass computes from B x S and B x T tokens, padded on any side."""
        encoded, trace = self.encode(network, source)
        return {**trace, **self.decode(network, target, encoded)}

    @torch.no_grad()
    def encode(self, network: AdlNetwork, source: Tensor) -> tuple[dict[str, Any], Trace]:
        """The encoder's dictionary for B x S tokens, and what its layers compute."""
        self.calls.clear()
        encoded, real = network.encode(source), _first(source)
        return encoded, {**self._layer_outputs(real), "encoder": encoded["encoder_out"][real]}

    @torch.no_grad()
    def source(self) -> Source:
        """The encoder output of the longest sentence, as layers attend to it."""
        encoded = self.network.encode(_alone(self.sources[0]))
        return cast(AdlDecoder, self.network.decoder).source(encoded)

    @torch.no_grad()
    def decode(self, network: AdlNetwork, target: Tensor, encoded: dict[str, Any]) -> Trace:
        """What the decoder computes from B x T tokens in a full pass."""
        self.calls.clear()
        features, _ = network.decode(target, encoded)
        outputs = self._layer_outputs(_first(target))
        return {**outputs, "decoder": network.logits(features)[target.ne(PAD)]}

    @torch.no_grad()
    def steps(
        self, network: AdlNetwork, target: Tensor, encoded: dict[str, Any], sizes: Iterator[int]
    ) -> Trace:
        """As ``decode``, some positions at a time: ``sizes`` are their numbers."""
        self.calls.clear()
        state, logits, end = State(), [], 0
        while end < target.size(1):
            end = min(end + next(sizes), target.size(1))
            features, _ = network.decode(target[:, :end], encoded, state)
            logits.append(network.logits(features))
        real = target.ne(PAD)
        return {**self._layer_outputs(real), "decoder": torch.cat(logits, dim=1)[real]}

    def _layer_outputs(self, real: Tensor) -> Trace:
        """The outputs of the layers at tokens, in the order in which the layers have ended.

        Layers that run several times in a pass are omitted.
        """
        parts: dict[int, list[Tensor]] = {}
        for number, output in self.calls:
            parts.setdefault(number, []).append(output)
        whole = {number: torch.cat(outputs, dim=1) for number, outputs in parts.items()}
        return {
            number: output[real]
            for number, output in whole.items()
            if output.shape[:2] == real.shape
        }


def joined(traces: list[Trace]) -> Trace:
    """The rows of several traces, one after the other."""
    return {
        name: torch.cat([trace[name] for trace in traces])
        for name in traces[0]
        if all(name in trace for trace in traces)
    }


def padded(rows: list[Tensor], left: bool, more: int = 0) -> Tensor:
    """Sentences as one tensor, padded on one side, with ``more`` columns than the longest needs."""
    length = max(map(len, rows)) + more
    sides = [(length - len(row), 0) if left else (0, length - len(row)) for row in rows]
    return torch.stack([F.pad(row, side, value=PAD) for row, side in zip(rows, sides)])


def layers_of(network: AdlNetwork, spec: ModelSpec) -> Iterator[Layer]:
    """The layers of both sides, at any depth, each before those inside it, and none twice."""
    found: dict[nn.Module, LayerSpec] = {}

    def visit(modules: nn.ModuleList, specs: tuple[LayerSpec, ...]) -> None:
        for module, each in zip(modules, specs):
            found.setdefault(module, each)
            chains = [*_chains_in(module)]
            # Otherwise, the layer uses its chains in its own way.
            if [*map(len, chains)] == [*map(len, each.chains)]:
                for chain, inside in zip(chains, each.chains):
                    visit(chain, inside)

    visit(cast(AdlEncoder, network.encoder).layers, spec.encoder.layers)
    visit(cast(AdlDecoder, network.decoder).layers, spec.decoder.layers)
    return (Layer(module, each) for module, each in found.items())


def _chains_in(module: nn.Module) -> Iterator[LayerChain]:
    """The chains of a layer, but not those of the layers in them."""
    for part in module.children():
        if isinstance(part, LayerChain):
            yield part
        else:
            yield from _chains_in(part)


def _alone(tokens: Tensor) -> Tensor:
    return tokens.unsqueeze(0)


def _first(tokens: Tensor) -> Tensor:
    """B x T, True in the first columns, as many as a sentence has tokens."""
    mask = order_padding_last(tokens.eq(PAD)).padding_mask
    return torch.ones_like(tokens, dtype=torch.bool) if mask is None else ~mask


def length_for(spec: ModelSpec) -> int:
    """The tokens of the longest sentence: some are outside each bounded receptive field.

    A sentence also has more than one chunk of a layer that computes in chunks, and more positions
    than the steps of linear attention keep.
    """
    fields = [stack_receptive_field(spec, stack) for stack in (spec.encoder, spec.decoder)]
    ends = [int(end) + 2 for field in fields for end in field if end != UNBOUNDED]
    layers = (*spec.encoder.walk(), *spec.decoder.walk())
    costs = (layer_type(each).cost_of(each) for each in layers)
    chunks = [max(cost.chunk, RECENT) + 2 for cost in costs if cost is not None and cost.chunk]
    return min(max(LENGTH, min(max(ends, default=0), MAX_FOR_FIELDS), *chunks), MAX_VERIFIED)


def _check_output(output: Any, x: Tensor, width: int) -> None:
    if not isinstance(output, Tensor):
        raise LayerFault(f"returns a {type(output).__name__}, not a tensor B x T x C'")
    if output.dim() != 3 or output.shape[:2] != x.shape[:2]:
        raise LayerFault("does not return B x T x C' for B x T x C")
    if output.size(2) != width:
        raise LayerFault(f"returns {output.size(2)} channels and declares {width} (`width=`)")


def _cannot_be_built(spec: ModelSpec, error: Exception) -> str:
    """A sentence that names the innermost layer that cannot be built."""
    where = "A layer"
    for each in (*spec.encoder.walk(), *spec.decoder.walk()):
        try:
            build_layer(each)
        except Exception as found:
            error, where = found, Layer(nn.Identity(), each).text
    return f"{where} cannot be built: it raises {in_short(error)}."


def in_short(error: Exception) -> str:
    """The type and the first line of an exception, without a full stop."""
    first, *_ = f"{type(error).__name__}: {error}".splitlines()
    return first.rstrip(". :")


@torch.no_grad()
def _randomize_constants_(network: nn.Module) -> None:
    """Change parameters that begin as zeros or ones, so that forgetting one shows."""
    for parameter in network.parameters():
        if parameter.numel() and bool((parameter == parameter.flatten()[0]).all()):
            parameter.add_(0.1 * torch.randn_like(parameter))


def _fill_padding(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    tokens = inputs[0][:, -output.size(1) :]
    return torch.where(tokens.eq(PAD).unsqueeze(-1), torch.randn_like(output), output)
