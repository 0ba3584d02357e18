"""Parameters, multiply-adds and receptive fields of resolved layers.

Needs torch only for layers of users whose number of parameters is not declared.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from .language.registry import UNBOUNDED, Cost, Reach, layer_type, receptive_field
from .language.spec import LayerSpec, ModelSpec, StackSpec


class Figures(NamedTuple):
    """Sums over some layers.

    Attributes:
        parameters: the number of parameters.
        multiply_adds: multiply-adds in matrix multiplications for one position.
        not_built: names of layers whose parameters are not counted.
        no_cost: names of layers whose multiply-adds are not counted.
    """

    parameters: int = 0
    multiply_adds: int = 0
    not_built: frozenset[str] = frozenset()
    no_cost: frozenset[str] = frozenset()

    def plus(self, other: "Figures") -> "Figures":
        return Figures(
            self.parameters + other.parameters,
            self.multiply_adds + other.multiply_adds,
            self.not_built | other.not_built,
            self.no_cost | other.no_cost,
        )


def figures(layers: Iterable[LayerSpec], length: int, own_weights: bool = True) -> Figures:
    """Sum over layers and all layers inside them.

    Args:
        layers: resolved layers.
        length: tokens of source and target, for attention.
        own_weights: whether to count parameters (True). Those of a ``share`` are counted where it
            is used first.
    """
    total = Figures()
    for layer in layers:
        own = own_weights and layer.owns_weights
        total = total.plus(_own_figures(layer, length, own))
        for chain in layer.chains:
            total = total.plus(figures(chain, length, own))
    return total


def _own_figures(spec: LayerSpec, length: int, own_weights: bool) -> Figures:
    parameters = own_parameters(spec) if own_weights else 0
    cost = layer_type(spec).cost_of(spec)
    return Figures(
        parameters or 0,
        (cost or Cost()).of_position(length),
        frozenset() if parameters is not None else frozenset([spec.name]),
        frozenset() if cost is not None else frozenset([spec.name]),
    )


def own_parameters(spec: LayerSpec) -> int | None:
    """Count the parameters of one layer without the chains inside it.

    If its declaration does not say the number, the layer is built on the meta device, where
    tensors have no data, with an identity in place of every layer inside it.

    Returns:
        The number of parameters; None if the layer cannot be built on the meta device.
    """
    entry = layer_type(spec)
    if entry.parameters is not None or entry.module is None:
        return entry.parameters_of(spec)
    outline = replace(spec, chains=tuple(tuple(map(_identity, chain)) for chain in spec.chains))
    return _count_parameters(outline, entry.module)


def _identity(spec: LayerSpec) -> LayerSpec:
    return LayerSpec("id", spec.side, spec.input_width, spec.settings, width=spec.width)


@lru_cache(maxsize=4096)
def _count_parameters(spec: LayerSpec, module: type) -> int | None:
    from ...nn.uninitialized import without_memory

    try:
        with without_memory():
            return sum(parameter.numel() for parameter in module(spec).parameters())
    except Exception:
        # The constructor of a user's layer may need data, which fails in many ways.
        return None


def stack_receptive_field(model_spec: ModelSpec, stack: StackSpec) -> Reach:
    """The receptive field of a model's encoder or decoder."""
    found = receptive_field(stack.layers)
    if model_spec.input_feeding and stack is model_spec.decoder:
        return Reach(UNBOUNDED, found.right)
    return found


def sequential_parts(model_spec: ModelSpec) -> list[str]:
    """Names of the parts of a model that training cannot compute for all positions at once."""
    layers = [*model_spec.encoder.walk(), *model_spec.decoder.walk()]
    names = sorted({layer.name for layer in layers if not layer_type(layer).parallel})
    return [*names, *(["input feeding"] if model_spec.input_feeding else [])]
