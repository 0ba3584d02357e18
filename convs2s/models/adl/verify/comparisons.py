"""Two ways to compute the same numbers: how far apart their results are."""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....nn import int8
from ....nn.state import BeamOrder, State, reorder_encoder_output
from .subject import FIRST, OUTPUTS, Subject, Trace, joined, padded

# Hypotheses of a sentence.
BEAM = 3


class Found(NamedTuple):
    """What a property has measured.

    Attributes:
        deviation: the largest deviation.
        where: the layer in which it begins, or another part of the network; empty if unknown.
    """

    deviation: float
    where: str = ""


def distance(actual: Tensor, expected: Tensor, least: float = 1.0) -> float:
    """The largest difference, in proportion to the largest number, if that is above ``least``."""
    if actual.shape != expected.shape:
        return float("inf")
    expected = expected.double()
    scale = max(least, float(expected.abs().max())) or 1.0
    return finite(float((actual.double() - expected).abs().max()) / scale)


def finite(deviation: float) -> float:
    """NaN counts as an infinite deviation."""
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
    """The measurement with the largest deviation."""
    return max(found, key=lambda each: each.deviation)


def steps(subject: Subject, bound: float, dtype: torch.dtype = torch.float64) -> Found:
    network, target = subject.precision(dtype), padded(subject.targets, left=False)
    encoded, _ = subject.encode(network, padded(subject.sources, left=True))
    actual = subject.steps(network, target, encoded, repeat(1))
    return compare(subject, bound, actual, subject.decode(network, target, encoded))


def steps_in_single_precision(subject: Subject, bound: float) -> Found:
    return steps(subject, bound, torch.float32)


def several_positions(subject: Subject, bound: float) -> Found:
    network, target = subject.network, padded(subject.targets, left=False)
    encoded, _ = subject.encode(network, padded(subject.sources, left=True))
    expected = subject.steps(network, target, encoded, repeat(1))

    def sizes() -> Iterator[int]:
        yield from (3, 1, 2)
        yield from repeat(4)

    return worst(
        compare(subject, bound, subject.steps(network, target, encoded, each), expected)
        for each in (sizes(), repeat(target.size(1)))
    )


@torch.no_grad()
def reordering(subject: Subject, bound: float) -> Found:
    """Hypotheses change places, double and end, and a sentence leaves the batch."""
    network = subject.network
    once, _ = subject.encode(network, padded(subject.sources[:3], left=True))
    sentences = torch.arange(len(subject.sources[:3])).repeat_interleave(BEAM)
    encoded, state = _spread(once, sentences), State()
    prefix = torch.randint(FIRST, subject.words, (len(sentences), 6))
    actual: list[Trace] = []
    expected: list[Trace] = []
    for end in range(1, prefix.size(1) + 1):
        for traces, given, kept in (
            (actual, encoded, state),
            (expected, _spread(once, sentences), None),
        ):
            subject.calls.clear()
            features, _ = network.decode(prefix[:, :end], given, kept)
            # With input feeding, the last call of a layer is that of the last position.
            last: Trace = {number: output[:, -1] for number, output in subject.calls}
            traces.append({**last, "decoder": network.logits(features[:, -1])})
        # After the third step, a sentence leaves; the others take hypotheses among their own.
        left = torch.arange(len(sentences) // BEAM)[int(end == 3) :]
        order = (left.unsqueeze(1) * BEAM + torch.randint(0, BEAM, (len(left), BEAM))).flatten()
        state.reorder_(order, BeamOrder(order, encoded["beam_size"]))
        encoded = _spread(encoded, order)
        prefix, sentences = prefix[order], sentences[order]
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
    network = subject.network
    encoded, _ = subject.encode(network, padded(subject.sources, left=True))
    target = padded(subject.targets, left=True, more=1)
    actual = subject.steps(network, target, encoded, repeat(1))
    expected = subject.decode(network, padded(subject.targets, left=False), encoded)
    return compare(subject, bound, actual, expected)


def alone_and_in_a_batch(subject: Subject, bound: float) -> Found:
    source, target = padded(subject.sources, left=True), padded(subject.targets, left=False)
    return compare(
        subject, bound, subject.full(subject.network, source, target), subject.reference()
    )


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
