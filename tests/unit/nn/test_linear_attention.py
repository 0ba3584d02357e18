"""Linear attention against a loop over positions: outputs, states and gradients."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from convs2s.nn.linear_attention import CHANNEL_CHUNK, HEAD_CHUNK, LARGEST, linear_attention

LENGTHS = (1, 2, 25, CHANNEL_CHUNK, CHANNEL_CHUNK + 1, HEAD_CHUNK + 1, 3 * HEAD_CHUNK + 5)
# Channels of the decays, and heads of queries and keys.
KINDS = {"heads": (1, 2), "heads that share keys": (1, 1), "channels": (3, 2)}
EVERY_KIND = pytest.mark.parametrize("channels, heads", KINDS.values(), ids=KINDS)


def inputs(channels, heads, length, scale=8.0, before=True, batch=2):
    generator = torch.Generator().manual_seed(length)

    def normal(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    query, key = normal(2, heads, length, 3), normal(2, heads, length, 3)
    log_decay = logsigmoid(scale * normal(batch, 2, length, channels))
    state = normal(2, 2, 3, 4) if before else torch.zeros(2, 2, 3, 4, dtype=torch.float64)
    given = query, key, normal(2, 2, length, 4), log_decay, state
    return [each.requires_grad_() for each in given]


def loop(query, key, value, log_decay, state):
    outputs = []
    for t in range(value.size(2)):
        update = key[:, :, t].unsqueeze(3) * value[:, :, t].unsqueeze(2)
        state = log_decay[:, :, t].exp().unsqueeze(3) * state + update
        outputs.append((query[:, :, t].unsqueeze(2) @ state).squeeze(2))
    return torch.stack(outputs, dim=2), state


def check(actual, expected, wanted):
    """Both outputs and states, and their gradients, are equal."""
    for found, plain in zip(actual, expected):
        torch.testing.assert_close(found, plain, atol=1e-11, rtol=1e-11)
    sums = [sum((each**2).sum() for each in pair) for pair in (actual, expected)]
    for found, plain in zip(*(torch.autograd.grad(each, wanted) for each in sums)):
        torch.testing.assert_close(found, plain, atol=1e-9, rtol=1e-9)


@EVERY_KIND
@pytest.mark.parametrize("length", LENGTHS)
def test_from_a_state(channels, heads, length):
    given = inputs(channels, heads, length)
    check(linear_attention(*given, need_state=True), loop(*given), given)


@EVERY_KIND
@pytest.mark.parametrize("length", LENGTHS[1:])
def test_from_the_beginning(channels, heads, length):
    *given, zeros = inputs(channels, heads, length, before=False)
    output, state = linear_attention(*given)
    assert state is None
    check([output], loop(*given, zeros)[:1], given)


@pytest.mark.parametrize("length", [2, HEAD_CHUNK + 1])
def test_sentences_share_decays(length):
    given = inputs(1, 2, length, batch=1)
    check(linear_attention(*given, need_state=True), loop(*given), given)


@EVERY_KIND
@pytest.mark.parametrize("scale", [1e3, 1e5])
def test_decays_of_0_and_1(channels, heads, scale):
    given = inputs(channels, heads, 70, scale)
    expected = loop(*given)
    check(linear_attention(*given, need_state=True), expected, given[:3])
    single = [each.detach().float().requires_grad_() for each in given]
    output, state = linear_attention(*single, need_state=True)
    torch.testing.assert_close(output.double(), expected[0], atol=1e-4, rtol=1e-4)
    (output.sum() + state.sum()).backward()
    assert all(each.grad.isfinite().all() for each in single)


@pytest.mark.parametrize("factor", [0.1, 0.99, 1.01], ids=["far", "below", "above"])
def test_factors_up_to_the_limit_of_single_precision(factor):
    """The smallest decay of all positions is at the limit, below it or above it."""
    *given, state = inputs(3, 2, 3 * CHANNEL_CHUNK)
    limit = LARGEST / (CHANNEL_CHUNK // 2 + 1)
    given[3] = torch.full_like(given[3], -factor * limit).requires_grad_()
    given.append(state)
    single = [each.detach().float().requires_grad_() for each in given]
    actual, expected = linear_attention(*single, need_state=True), loop(*given)
    for found, plain in zip(actual, expected):
        torch.testing.assert_close(found.double(), plain, atol=2e-5, rtol=2e-5)
    sums = [sum((each**2).sum() for each in pair) for pair in (actual, expected)]
    pairs = zip(torch.autograd.grad(sums[0], single), torch.autograd.grad(sums[1], given))
    for found, plain in pairs:
        assert (found.double() - plain).abs().max() < 2e-5 * plain.abs().max()


def test_half_precision_sums_in_single_precision():
    given = [each.detach().bfloat16() for each in inputs(3, 2, 200)]
    with torch.autocast("cpu", torch.bfloat16):
        output, state = linear_attention(*given, need_state=True)
    assert output.dtype == state.dtype == torch.float32
    expected, _ = loop(*(each.double() for each in given))
    torch.testing.assert_close(output.double(), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("channels", [1, 3], ids=["heads", "channels"])
def test_from_a_state_in_a_graph(channels):
    given = inputs(channels, 2, 5)
    graph = torch.compile(linear_attention, backend="eager", fullgraph=True)
    check(graph(*given, need_state=True), loop(*given), given)
