"""The linear scan against a loop over positions, and its derivatives of any order."""

import pytest
import torch

from convs2s.nn.scan import linear_scan


def inputs(length, dtype=torch.float64, before=True):
    generator = torch.Generator().manual_seed(length)
    a, b = (torch.rand(2, length, 3, dtype=dtype, generator=generator) for _ in range(2))
    h = torch.rand(2, 3, dtype=dtype, generator=generator) if before else None
    return [None if each is None else each.requires_grad_() for each in (a, b - 0.5, h)]


def loop(a, b, h):
    outputs, h = [], torch.zeros_like(b[:, 0]) if h is None else h
    for t in range(b.size(1)):
        h = a[:, t] * h + b[:, t]
        outputs.append(h)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_the_scan_and_its_gradients_are_those_of_a_loop(length, before):
    given = inputs(length, before=before)
    wanted = [each for each in given if each is not None]
    actual, expected = linear_scan(*given), loop(*given)
    torch.testing.assert_close(actual, expected, atol=1e-12, rtol=1e-12)
    weights = torch.rand_like(actual)
    # Without a state before, the first decay has no influence.
    found, plain = (
        torch.autograd.grad((y * weights).sum(), wanted, allow_unused=True)
        for y in (actual, expected)
    )
    for gradient, other, each in zip(found, plain, wanted):
        gradient, other = (torch.zeros_like(each) if x is None else x for x in (gradient, other))
        torch.testing.assert_close(gradient, other, atol=1e-12, rtol=1e-12)


def test_second_derivatives():
    given = inputs(4)
    assert torch.autograd.gradcheck(linear_scan, given)
    assert torch.autograd.gradgradcheck(linear_scan, given)


def test_parts_of_a_sequence_continue_each_other():
    a, b, h = inputs(9)
    first = linear_scan(a[:, :4], b[:, :4], h)
    second = linear_scan(a[:, 4:], b[:, 4:], first[:, -1])
    whole = linear_scan(a, b, h)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, atol=0, rtol=0)


def test_half_precision_sums_in_single_precision():
    a, b, h = inputs(200, torch.bfloat16)
    actual = linear_scan(a, b, h)
    assert actual.dtype == torch.float32
    expected = loop(a.double(), b.double(), h.double())
    torch.testing.assert_close(actual.double(), expected, atol=1e-5, rtol=1e-5)


def test_the_inputs_stay_as_they_are():
    a, b, h = inputs(5)
    copies = [each.detach().clone() for each in (a, b, h)]
    linear_scan(a, b, h).sum().backward()
    assert all(torch.equal(each, copy) for each, copy in zip((a, b, h), copies))
