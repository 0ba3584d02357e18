"""The properties: what is computed in two ways, how far both may differ, and what a fault means."""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ....nn import int8
from ....nn.flops import count_matmul_flops
from ....nn.state import BeamOrder, State, reorder_encoder_output
from ..context import Context, Source
from ..figures import figures, receptive_field, stack_receptive_field
from ..language.registry import Reach
from ..language.spec import DECODER, ENCODER
from ..network import AdlNetwork
from .subject import OUTPUTS, PAD, Layer, Subject, Trace, joined, padded

BEAM = 3
# Steps of numerical derivatives.
STEPS = (1e-6, 1e-7, 1e-5)


class Found(NamedTuple):
    """What a property has measured.

    Attributes:
        deviation: the largest one.
        where: the layer in which it begins, or another part of the network; empty if unknown.
    """

    deviation: float
    where: str = ""


class Property(NamedTuple):
    """One property.

    Attributes:
        name: for the tables.
        claim: what holds.
        bound: the largest allowed deviation.
        measure: computes both sides, given the subject and the bound; None if this machine cannot.
        fault: what a larger deviation means, and where to look.
        sides: the sides of the layers that it says something about.
    """

    name: str
    claim: str
    bound: float
    measure: Callable[[Subject, float], Found | None]
    fault: str
    sides: tuple[str, ...] = (ENCODER, DECODER)


def distance(actual: Tensor, expected: Tensor, least: float = 1.0) -> float:
    """The largest difference, in proportion to the largest number, if that is above ``least``."""
    if actual.shape != expected.shape:
        return float("inf")
    expected = expected.double()
    scale = max(least, float(expected.abs().max()))
    return _finite(float((actual.double() - expected).abs().max()) / scale)


def _finite(deviation: float) -> float:
    """What is not a number deviates as infinity does."""
    return deviation if deviation < float("inf") else float("inf")


def compare(
    subject: Subject, bound: float, actual: Trace, expected: Trace, least: float = 1.0
) -> Found:
    """The largest distance between outputs, and the first layer above the bound."""
    deviation = max(
        distance(actual[name], expected[name], least) for name in OUTPUTS if name in actual
    )
    if deviation <= bound:
        return Found(deviation)
    for name in actual:
        if isinstance(name, int) and name in expected:
            if distance(actual[name], expected[name], least) > bound:
                return Found(deviation, subject.layers[name].text)
    return Found(deviation)


def worst(found: Iterable[Found]) -> Found:
    """The one with the largest deviation."""
    return max(found, key=lambda each: each.deviation)


def steps(subject: Subject, bound: float, dtype: torch.dtype = torch.float64) -> Found:
    network = subject.precision(dtype)
    batch = padded(subject.sources, left=True), padded(subject.targets, left=False)
    actual = subject.steps(network, *batch, repeat(1))
    return compare(subject, bound, actual, subject.full(network, *batch))


def steps_in_single_precision(subject: Subject, bound: float) -> Found:
    return steps(subject, bound, torch.float32)


def several_positions(subject: Subject, bound: float) -> Found:
    source, target = padded(subject.sources, left=True), padded(subject.targets, left=False)
    expected = subject.steps(subject.network, source, target, repeat(1))

    def sizes() -> Iterator[int]:
        yield from (3, 1, 2)
        yield from repeat(4)

    return worst(
        compare(subject, bound, subject.steps(subject.network, source, target, each), expected)
        for each in (sizes(), repeat(target.size(1)))
    )


@torch.no_grad()
def reordering(subject: Subject, bound: float) -> Found:
    """Hypotheses change places, double and end, and a sentence leaves the batch."""
    network, some = subject.network, subject.sources[:3]
    order = torch.arange(len(some)).repeat_interleave(BEAM)
    sources, state = padded(some, left=True), State()
    encoded = _spread(network.encode(sources), order)
    sources = sources[order]
    prefix = torch.randint(4, network.output.weight_and_bias()[0].size(0), (len(order), 6))
    actual, expected = [], []
    for end in range(1, prefix.size(1) + 1):
        subject.calls.clear()
        features, _ = network.decode(prefix[:, :end], encoded, state)
        step = {number: output[:, -1] for number, output in subject.calls}
        actual.append({**step, "decoder": network.logits(features[:, -1])})
        subject.calls.clear()
        features, _ = network.decode(prefix[:, :end], network.encode(sources))
        # With input feeding, a layer runs once for each position, and the last call counts.
        anew = {number: output[:, -1] for number, output in subject.calls}
        expected.append({**anew, "decoder": network.logits(features[:, -1])})
        # One sentence less from the third step on; each takes hypotheses among its own.
        left = torch.arange(len(sources) // BEAM)[int(end == 3) :]
        chosen = torch.randint(0, BEAM, (len(left), BEAM))
        order = (left.unsqueeze(1) * BEAM + chosen).flatten()
        state.reorder_(order, BeamOrder(order, encoded["beam_size"]))
        encoded = _spread(encoded, order)
        prefix, sources = prefix[order], sources[order]
    return compare(subject, bound, joined(actual), joined(expected))


def _spread(encoded: dict[str, Any], order: Tensor) -> dict[str, Any]:
    return reorder_encoder_output(encoded, BeamOrder(order, encoded["beam_size"]))


def _padding(subject: Subject, bound: float, left: bool) -> Found:
    """Each sentence with padding, one by one."""
    traces = [
        subject.full(
            subject.network, padded([source], left, more=3), padded([target], left, more=2)
        )
        for source, target in zip(subject.sources, subject.targets)
    ]
    return compare(subject, bound, joined(traces), subject.reference())


def padding_on_the_right(subject: Subject, bound: float) -> Found:
    return _padding(subject, bound, left=False)


def padding_on_the_left(subject: Subject, bound: float) -> Found:
    return _padding(subject, bound, left=True)


def steps_after_padding(subject: Subject, bound: float) -> Found:
    batch = padded(subject.sources, left=True), padded(subject.targets, left=True, more=1)
    actual = subject.steps(subject.network, *batch, repeat(1))
    return compare(subject, bound, actual, subject.reference())


def alone_and_in_a_batch(subject: Subject, bound: float) -> Found:
    source, target = padded(subject.sources, left=True), padded(subject.targets, left=False)
    return compare(
        subject, bound, subject.full(subject.network, source, target), subject.reference()
    )


def _gradients(outputs: Tensor, inputs: Tensor) -> Tensor:
    """For each position of 1 x T x C outputs, how much it depends on those of the inputs, T x T."""
    projected = outputs[0] @ torch.randn(outputs.size(-1), dtype=outputs.dtype)
    rows = []
    for output in projected:
        gradient = None
        if output.requires_grad:
            (gradient,) = torch.autograd.grad(
                output, inputs, retain_graph=True, allow_unused=True
            )
        rows.append(inputs.new_zeros(len(projected)) if gradient is None else gradient[0].abs().amax(1))
    return torch.stack(rows)


def _outside(gradients: Tensor, reach: Reach) -> float:
    """The largest gradient outside of a receptive field."""
    positions = torch.arange(len(gradients))
    distances = positions - positions.unsqueeze(1)
    outside = gradients[(distances < -reach.left) | (distances > reach.right)]
    return _finite(float(outside.max())) if outside.numel() else 0.0


def _embedded(subject: Subject, side: str) -> tuple[Tensor, Tensor]:
    """The embeddings of the longest sentence of a side, and what the side makes of them."""
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
    inputs, outputs = _embedded(subject, DECODER)
    later = _outside(_gradients(outputs, inputs), Reach(float("inf"), 0))
    if later <= bound:
        return Found(later)
    layers = [layer for layer in subject.layers if layer.spec.in_decoder]
    return Found(later, _first_outside(subject, layers, lambda layer: Reach(float("inf"), 0)).where)


def receptive_fields(subject: Subject, bound: float) -> Found:
    spec = subject.spec
    found = [
        Found(
            _outside(_gradients(outputs, inputs), stack_receptive_field(spec, stack)),
            f"the {stack.side}",
        )
        for stack in (spec.encoder, spec.decoder)
        for inputs, outputs in [_embedded(subject, stack.side)]
    ]
    # A layer with a wrong field may stand beside one that sees everything.
    own = _first_outside(subject, subject.layers, lambda layer: receptive_field([layer.spec]))
    return worst([own, *found])


def _first_outside(
    subject: Subject, layers: Iterable[Layer], reach_of: Callable[[Layer], Reach]
) -> Found:
    """The innermost layer that sees more than its field, of random inputs; else the largest."""
    length, found = subject.length, Found(0.0)
    with torch.no_grad():
        source = _source(subject)
    for layer in layers:
        x = torch.randn(1, length, layer.spec.input_width, dtype=torch.float64, requires_grad=True)
        outside = _outside(
            _gradients(layer.module(x, Context(torch.arange(length), length, source=source)), x),
            reach_of(layer),
        )
        # Those inside a layer follow it.
        if outside > 0:
            found = Found(outside, layer.text)
    return found


def _source(subject: Subject) -> Source:
    """The encoder output of the longest sentence."""
    encoded = subject.network.encode(subject.sources[0].unsqueeze(0))
    return subject.network.decoder.source(encoded)


def parameters(subject: Subject, bound: float) -> Found:
    found = Found(0.0)
    for layer in subject.layers:
        stated = figures([layer.spec], 1)
        built = sum(parameter.numel() for parameter in layer.module.parameters())
        if not stated.not_built and built != stated.parameters:
            where = f"{layer.text}: it states {stated.parameters:,} and has {built:,}"
            found = Found(max(found.deviation, abs(built - stated.parameters)), where)
    return found


class _Products(TorchDispatchMode):
    """Counts the products of operations that are no matrix products, such as weighted sums."""

    NAMES = ("mul", "mul_", "mv", "addcmul", "addcmul_", "addcdiv", "lerp", "lerp_")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in self.NAMES:
            self.count += max(each.numel() for each in (result, *args) if isinstance(each, Tensor))
        return result


@torch.no_grad()
def multiply_adds(subject: Subject, bound: float) -> Found:
    """Stated are all matrix products, and as many others as the layer counts as such."""
    length, found = subject.length, Found(0.0)
    source = _source(subject)
    for layer in subject.layers:
        stated = figures([layer.spec], length)
        if stated.no_cost:
            continue
        x = torch.randn(1, length, layer.spec.input_width, dtype=torch.float64)
        context = Context(torch.arange(length), length, source=source)

        def run(layer: Layer = layer, x: Tensor = x, context: Context = context) -> None:
            layer.module(x, context)

        least = count_matmul_flops(run).flops / 2 / length
        with _Products() as others:
            run()
        most = least + others.count / length
        beyond = max(least - stated.multiply_adds, stated.multiply_adds - most)
        if beyond > 0:
            where = (
                f"{layer.text}: it states {stated.multiply_adds:,} and computes "
                f"{least:,.0f}{f' to {most:,.0f}' if most > least else ''}"
            )
            found = Found(max(found.deviation, beyond), where)
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

    everything = list(network.parameters())
    gradients = torch.autograd.grad(value(), everything, allow_unused=True)
    gradient_of = dict(zip(map(id, everything), gradients))
    found = Found(0.0)
    for where, members in _parts(subject).items():
        slopes = [gradient_of[id(member)] for member in members]
        directions = [torch.randn_like(member) for member in members]
        pairs = [(g, direction) for g, direction in zip(slopes, directions) if g is not None]
        expected = sum(float((g * direction).sum()) for g, direction in pairs)
        norm = sum(float(g.square().sum()) for g, _ in pairs) ** 0.5
        # With one step a rectifier may change its side, with all of them none does.
        deviation = float("inf")
        for step in STEPS:
            numerical = _derivative(value, members, directions, step)
            deviation = min(deviation, abs(numerical - expected) / max(1.0, norm))
            if deviation <= bound:
                break
        found = worst([found, Found(deviation, where)])
    return found


def _parts(subject: Subject) -> dict[str, list[nn.Parameter]]:
    """The parameters of each layer without those inside it, and all others."""
    owners: dict[nn.Parameter, str] = dict.fromkeys(
        subject.network.parameters(), "the embeddings or the output"
    )
    # Those inside a layer follow it.
    for layer in subject.layers:
        owners.update(dict.fromkeys(layer.module.parameters(), layer.text))
    parts: dict[str, list[nn.Parameter]] = {}
    for parameter, owner in owners.items():
        parts.setdefault(owner, []).append(parameter)
    return parts


@torch.no_grad()
def _derivative(
    value: Callable[[], Tensor], members: list[nn.Parameter], directions: list[Tensor], step: float
) -> float:
    """The numerical derivative of a value in a direction of some parameters."""
    before = [member.clone() for member in members]
    values = []
    for sign in (step, -step):
        for member, old, direction in zip(members, before, directions):
            member.copy_(old + sign * direction)
        values.append(float(value()))
    for member, old in zip(members, before):
        member.copy_(old)
    return (values[0] - values[1]) / (2 * step)


def bfloat16(subject: Subject, bound: float) -> Found:
    single = subject.precision(torch.float32)
    expected, half = subject.reference(single), subject.precision(torch.bfloat16)
    found = compare(subject, bound, subject.reference(half), expected, least=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = subject.reference(single)
    return worst([found, compare(subject, bound, mixed, expected, least=0.0)])


def in_8_bits(subject: Subject, bound: float) -> Found | None:
    if not int8.is_supported():
        return None
    network = subject.precision(torch.float32)
    expected = subject.reference(network)
    network.prepare_for_generation_()
    network.quantize_()
    return compare(subject, bound, subject.reference(network), expected, least=0.0)


IN_DECODER = (DECODER,)
_STEPS_FAULT = (
    "generation computes something else than training has learned. A layer keeps what later "
    "positions need in `context.layer_state(self).rows`, and reads it in the next step"
)
_PADDING_FAULT = (
    "a translation depends on how much its sentence is padded, and so on the other sentences of "
    "its batch. A layer ignores the positions at which `context.padding_mask` is true"
)
PROPERTIES = (
    Property(
        "steps, float64",
        "decoding one position after the other gives what one pass over all positions gives",
        1e-9,
        steps,
        _STEPS_FAULT,
        IN_DECODER,
    ),
    Property(
        "steps, float32",
        "the same in single precision",
        2e-4,
        steps_in_single_precision,
        f"{_STEPS_FAULT}. If only float32 fails, rounding errors grow from step to step",
        IN_DECODER,
    ),
    Property(
        "several positions",
        "decoding several positions at once gives what one after the other gives",
        1e-9,
        several_positions,
        "positions that are decoded together, such as those of a given prefix, give something else "
        "than one after the other. A step may have several positions, and each begins with what "
        "the position before it has left",
        IN_DECODER,
    ),
    Property(
        "reordering",
        "hypotheses that change places, double or end go on as if they were decoded anew",
        1e-9,
        reordering,
        "beam search continues a hypothesis with the past of another. Reordered are the tensors in "
        "`.rows` and `.sentences` of `context.layer_state(self)`, and its key-value cache: keep "
        "nothing of a sentence in the module or in `.constants`",
        IN_DECODER,
    ),
    Property(
        "padding on the right",
        "padding after source and target changes nothing at their tokens",
        1e-9,
        padding_on_the_right,
        _PADDING_FAULT,
    ),
    Property(
        "padding on the left",
        "padding before source and target changes nothing at their tokens",
        1e-9,
        padding_on_the_left,
        _PADDING_FAULT,
    ),
    Property(
        "steps after padding",
        "nor does it if the positions are decoded one after the other",
        1e-9,
        steps_after_padding,
        "in a step, padding precedes the tokens of some hypotheses, and changes what follows. A "
        "state stays as it is where `context.padding_mask` (R x 1) is true",
        IN_DECODER,
    ),
    Property(
        "batch",
        "a sentence alone gives what it gives in a batch",
        1e-9,
        alone_and_in_a_batch,
        "a translation depends on the other sentences of its batch. A layer treats each row by "
        "itself, and ignores padding",
    ),
    Property(
        "later tokens",
        "no output of the decoder has a gradient to a later target token",
        0.0,
        later_tokens,
        "an output depends on tokens that it must predict. Training reads them, and generation has "
        "none: look at what the layer reads to the right",
        IN_DECODER,
    ),
    Property(
        "receptive field",
        "no output has a gradient to positions outside of the stated receptive field, neither in "
        "a layer nor in a side",
        0.0,
        receptive_fields,
        "an output depends on positions outside of the receptive field that `convs2s adl explain` "
        "prints. Correct `reach=` of the declaration, or the layer",
    ),
    Property(
        "parameters",
        "each layer has as many parameters as `convs2s adl explain` prints",
        0.0,
        parameters,
        "`convs2s adl explain` prints a wrong number of parameters. Correct `parameters=` of the "
        "declaration",
    ),
    Property(
        "multiply-adds",
        "each layer computes as many as `convs2s adl explain` prints: all matrix products, and "
        "none but those and other products",
        0.0,
        multiply_adds,
        "`convs2s adl explain` prints a wrong number of multiply-adds. Correct `cost=` of the "
        "declaration",
    ),
    Property(
        "gradients",
        "the gradients of each layer's parameters and of the embeddings are the numerical ones",
        1e-6,
        numerical_gradients,
        "gradients are not those of what is computed, so that training goes in a wrong direction. "
        "Look for `detach()`, `.data`, changes in place and autograd functions, in this layer and "
        "in those above it",
    ),
    Property(
        "bfloat16",
        "with `--bf16` and with `--autocast-dtype bfloat16`, results are near those of float32",
        0.3,
        bfloat16,
        "in bfloat16, results are far from those of float32. Sums over many positions, "
        "exponentials and differences of similar numbers need float32",
    ),
    Property(
        "int8",
        "with `--int8`, results are near those of float32",
        0.3,
        in_8_bits,
        "with --int8, results are far from those of float32. Weights that must not be rounded "
        "should be those of an `nn.Linear`, not of a `Linear` of this package",
    ),
)
