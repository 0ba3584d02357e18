"""Derivatives: which positions an output depends on, and whether gradients are right."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..context import Context
from ..figures import stack_receptive_field
from ..language.registry import PAST, Reach, receptive_field
from ..language.spec import DECODER, ENCODER
from .comparisons import Found, finite, worst
from .subject import PAD, Layer, Subject, padded

# Steps of numerical derivatives.
STEPS = (1e-6, 1e-7, 1e-5)


def _gradients(inputs: Tensor, outputs: Tensor) -> Tensor:
    """For each position of 1 x T x C outputs, how much it depends on those of the inputs, T x T."""
    projected = outputs[0] @ torch.randn(outputs.size(-1), dtype=outputs.dtype)
    rows = []
    for output in projected:
        gradient = None
        if output.requires_grad:
            (gradient,) = torch.autograd.grad(output, inputs, retain_graph=True, allow_unused=True)
        rows.append(
            inputs.new_zeros(len(projected)) if gradient is None else gradient[0].abs().amax(1)
        )
    return torch.stack(rows)


def _outside(gradients: Tensor, reach: Reach) -> float:
    """The largest gradient outside a receptive field."""
    positions = torch.arange(len(gradients))
    distances = positions - positions.unsqueeze(1)
    outside = gradients[(distances < -reach.left) | (distances > reach.right)]
    return finite(float(outside.max())) if outside.numel() else 0.0


def _embedded(subject: Subject, side: str) -> tuple[Tensor, Tensor]:
    """The embeddings of the longest sentence of a side, and what the side computes from them."""
    network, kept = subject.network, []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[0]

    hook = getattr(network, side).embed.register_forward_hook(keep)
    try:
        encoded = network.encode(subject.sources[0].unsqueeze(0))
        outputs = encoded["encoder_out"]
        if side != ENCODER:
            outputs, _ = network.decode(subject.targets[1].unsqueeze(0), encoded)
        return kept[0], outputs
    finally:
        hook.remove()


def later_tokens(subject: Subject, bound: float) -> Found:
    later = _outside(_gradients(*_embedded(subject, DECODER)), PAST)
    if later <= bound:
        return Found(later)
    layers = [layer for layer in subject.layers if layer.spec.in_decoder]
    return Found(later, _first_outside(subject, layers, lambda layer: PAST).where)


def receptive_fields(subject: Subject, bound: float) -> Found:
    spec = subject.spec
    # A layer with a wrong field may be next to one that sees everything.
    of_layers = _first_outside(subject, subject.layers, lambda layer: receptive_field([layer.spec]))
    if of_layers.deviation > bound:
        return of_layers
    found = [of_layers]
    for stack in (spec.encoder, spec.decoder):
        gradients = _gradients(*_embedded(subject, stack.side))
        outside = _outside(gradients, stack_receptive_field(spec, stack))
        found.append(Found(outside, f"the {stack.side}"))
    return worst(found)


def _first_outside(
    subject: Subject, layers: Iterable[Layer], reach_of: Callable[[Layer], Reach]
) -> Found:
    """The innermost layer whose outputs have gradients outside a field, for random inputs."""
    length, found, source = subject.length, Found(0.0), subject.source()
    for layer in layers:
        x = torch.randn(1, length, layer.spec.input_width, dtype=torch.float64, requires_grad=True)
        context = Context(torch.arange(length), length, source=source)
        outside = _outside(_gradients(x, layer.module(x, context)), reach_of(layer))
        # Those inside a layer follow it.
        if outside > 0:
            found = Found(outside, layer.text)
    return found


def numerical_gradients(subject: Subject, bound: float) -> Found:
    """The derivatives in a random direction for each layer, and for all other parameters."""
    network = subject.network
    source, target = padded(subject.sources, left=True), padded(subject.targets, left=False)
    real, seed = target.ne(PAD), torch.initial_seed()
    weights = torch.randn_like(network(source, target)[real])

    def value() -> Tensor:
        # The random numbers at padding must be the same in each pass.
        torch.manual_seed(seed)
        return (network(source, target)[real] * weights).sum()

    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(value(), trained, allow_unused=True)
    gradient_of = dict(zip(trained, gradients))
    found = Found(0.0)
    for where, members in _parts(subject, trained).items():
        slopes = [gradient_of[member] for member in members]
        directions = [torch.randn_like(member) for member in members]
        pairs = [(g, direction) for g, direction in zip(slopes, directions) if g is not None]
        expected = sum(float((g * direction).sum()) for g, direction in pairs)
        norm = sum(float(g.square().sum()) for g, _ in pairs) ** 0.5
        deviation = float("inf")
        # A rectifier may switch sides in one of the steps.
        for step in STEPS:
            numerical = _derivative(value, members, directions, step)
            deviation = min(deviation, abs(numerical - expected) / max(1.0, norm))
            if deviation <= bound:
                break
        found = worst([found, Found(deviation, where)])
    return found


def _parts(subject: Subject, trained: list[nn.Parameter]) -> dict[str, list[nn.Parameter]]:
    """The parameters of each layer without those inside it, and all others."""
    owners = dict.fromkeys(trained, "the embeddings or the output")
    # Those inside a layer follow it.
    for layer in subject.layers:
        own = [parameter for parameter in layer.module.parameters() if parameter.requires_grad]
        owners.update(dict.fromkeys(own, layer.text))
    parts: dict[str, list[nn.Parameter]] = {}
    for parameter, owner in owners.items():
        parts.setdefault(owner, []).append(parameter)
    return parts


@torch.no_grad()
def _derivative(
    value: Callable[[], Tensor], members: list[nn.Parameter], directions: list[Tensor], step: float
) -> float:
    """The numerical derivative of a value in a direction of some parameters, of fourth order."""
    before = [member.clone() for member in members]
    total = 0.0
    for multiple, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
        for member, old, direction in zip(members, before, directions):
            member.copy_(old + multiple * step * direction)
        total += weight * float(value())
    for member, old in zip(members, before):
        member.copy_(old)
    return total / (12 * step)
